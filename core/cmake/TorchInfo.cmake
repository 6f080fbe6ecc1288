# Finds the installed torch by asking the Python interpreter for its folder and version.
#
# find_package(Torch) is avoided: it is slow, and in a CUDA build of torch it asks for the CUDA toolkit,
# which the adapter does not need.
#
# Sets TORCH_FOLDER, TORCH_VERSION (without a local part such as "+cpu"), TORCH_VERSION_MAJOR,
# TORCH_VERSION_MINOR, and defines the interface target torch_fl::torch.

set(TORCH_FL_OLDEST_TORCH 2.13)
set(TORCH_FL_NEWEST_TORCH 2.13)

execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/torch_info.py"
  OUTPUT_VARIABLE torch_info
  ERROR_VARIABLE torch_error
  RESULT_VARIABLE torch_status
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT torch_status EQUAL 0)
  message(FATAL_ERROR
    "The PyTorch adapter needs torch in ${Python_EXECUTABLE}: ${torch_error}\n"
    "Install torch first and build with 'pip install --no-build-isolation ./core', "
    "or leave the adapter out with -DTORCH_FL_ADAPTER=OFF.")
endif()
list(GET torch_info 0 TORCH_FOLDER)
list(GET torch_info 1 TORCH_VERSION)
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" _ "${TORCH_VERSION}")
set(TORCH_VERSION_MAJOR "${CMAKE_MATCH_1}")
set(TORCH_VERSION_MINOR "${CMAKE_MATCH_2}")
set(minor_version "${TORCH_VERSION_MAJOR}.${TORCH_VERSION_MINOR}")

if(minor_version VERSION_LESS TORCH_FL_OLDEST_TORCH)
  message(FATAL_ERROR "The adapter needs torch ${TORCH_FL_OLDEST_TORCH} or newer, found ${TORCH_VERSION}")
elseif(minor_version VERSION_GREATER TORCH_FL_NEWEST_TORCH)
  message(WARNING "The adapter is tested with torch ${TORCH_FL_NEWEST_TORCH}; building for ${TORCH_VERSION}")
endif()
message(STATUS "Building the adapter for torch ${TORCH_VERSION}")

add_library(torch_fl_torch INTERFACE)
add_library(torch_fl::torch ALIAS torch_fl_torch)
# SYSTEM: warnings in torch's headers are not ours to mend.
target_include_directories(torch_fl_torch SYSTEM INTERFACE
  "${TORCH_FOLDER}/include"
  "${TORCH_FOLDER}/include/torch/csrc/api/include"
  "${TORCH_FOLDER}/include/kineto")
target_compile_definitions(torch_fl_torch INTERFACE
  HAVE_AVX2_CPU_DEFINITION HAVE_AVX512_CPU_DEFINITION USE_KINETO FMT_HEADER_ONLY=1
  "TORCH_FL_TORCH_VERSION=\"${TORCH_VERSION}\"")
foreach(name torch_python torch_cpu torch c10)
  set(library "${TORCH_FOLDER}/lib/lib${name}.so")
  if(NOT EXISTS "${library}")
    message(FATAL_ERROR "torch ${TORCH_VERSION} has no ${library}")
  endif()
  target_link_libraries(torch_fl_torch INTERFACE "${library}")
endforeach()
