// cl_loader.cpp - dlopen of libOpenCL.so.1 or of a single driver, see cl_loader.h.
#include "cl_loader.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ralcl {
namespace {

// Fill a table by symbol name. False, with the name in `missing`, where a mandatory function is absent.
bool fill_by_name(void* library, Api& api, std::string& missing) {
#define X(place, name, result, parameters)                                     \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "cl" #name)); \
  if (!api.name && place < kFirstOptionalPlace) {                              \
    missing = "cl" #name;                                                      \
    return false;                                                              \
  }
  RAL_CL_FUNCTIONS(X)
#undef X
  return true;
}

// Fill a table from the dispatch table that every object of an ICD driver begins with a pointer to.
// `optional` says whether the driver is OpenCL 2.1 or later, so that the table is that long.
void fill_by_place(void* const* dispatch, bool optional, Api& api) {
#define X(place, name, result, parameters) \
  if (place < kFirstOptionalPlace || optional) api.name = reinterpret_cast<decltype(api.name)>(dispatch[place]);
  RAL_CL_FUNCTIONS(X)
#undef X
}

std::string platform_text(const Api& api, cl_platform_id id, cl_uint what) {
  char text[512] = "";
  if (api.GetPlatformInfo(id, what, sizeof text - 1, text, nullptr) != CL_SUCCESS) return "";
  return text;
}

// "OpenCL 3.0 PoCL ..." -> 30; 0 where the text has another form.
int platform_version(const std::string& text) {
  int major = 0, minor = 0;
  if (std::sscanf(text.c_str(), "OpenCL %d.%d", &major, &minor) != 2) return 0;
  return major * 10 + minor;
}

// A variable is set only where the user has not set it.
void default_environment(const char* name, const std::string& value) { setenv(name, value.c_str(), 0); }

std::vector<Platform> platforms_of_loader(std::string& why) {
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why = "libOpenCL.so.1 is not installed";
    return {};
  }
  static Api api;
  std::string missing;
  if (!fill_by_name(library, api, missing)) {
    why = "libOpenCL.so.1 is older than OpenCL 1.2 (no " + missing + ")";
    return {};
  }
  cl_uint count = 0;
  if (api.GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) {
    why = "libOpenCL.so.1 finds no driver";
    return {};
  }
  std::vector<cl_platform_id> ids(count);
  if (api.GetPlatformIDs(count, ids.data(), nullptr) != CL_SUCCESS) {
    why = "libOpenCL.so.1 could not list its drivers";
    return {};
  }
  std::vector<Platform> platforms;
  for (cl_platform_id id : ids) platforms.push_back({&api, id});
  return platforms;
}

std::vector<Platform> platforms_of_driver(const std::string& path, std::string& why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* text = dlerror();
    why = text ? text : "cannot load " + path;
    return {};
  }
  using GetAddress = void* (*)(const char*);
  using GetPlatforms = cl_int (*)(cl_uint, cl_platform_id*, cl_uint*);
  auto list = reinterpret_cast<GetPlatforms>(dlsym(library, "clIcdGetPlatformIDsKHR"));
  if (!list) {
    auto address = reinterpret_cast<GetAddress>(dlsym(library, "clGetExtensionFunctionAddress"));
    if (address) list = reinterpret_cast<GetPlatforms>(address("clIcdGetPlatformIDsKHR"));
  }
  if (!list) {
    why = path + " is not an OpenCL driver (no clIcdGetPlatformIDsKHR)";
    return {};
  }
  cl_uint count = 0;
  if (list(0, nullptr, &count) != CL_SUCCESS || count == 0) {
    why = path + " offers no platform";
    return {};
  }
  std::vector<cl_platform_id> ids(count);
  if (list(count, ids.data(), nullptr) != CL_SUCCESS) {
    why = path + " could not list its platforms";
    return {};
  }
  std::vector<Platform> platforms;
  for (cl_platform_id id : ids) {
    auto dispatch = *reinterpret_cast<void* const* const*>(id);
    Api base;
    fill_by_place(dispatch, false, base);
    int version = platform_version(platform_text(base, id, CL_PLATFORM_VERSION));
    auto api = new Api;  // kept until the process ends, as drivers cannot be unloaded safely
    fill_by_place(dispatch, version >= 21, *api);
    platforms.push_back({api, id});
  }
  return platforms;
}

// The folder `levels` above `path`, by its name alone: links on the way are not followed.
std::string folder_above(std::string path, int levels) {
  for (; levels > 0; --levels) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    path.resize(slash);
  }
  return path;
}

// Candidate paths of PoCL's library as PyPI's pocl-binary-distribution installs it: the plugin lives in
// site-packages/torch_fl_core/plugins/opencl.
std::vector<std::string> pocl_candidates() {
  const char* named = std::getenv("RAL_POCL_PATH");
  if (named && *named) return {named};
  std::vector<std::string> found;
  const std::string pattern = folder_above(plugin_folder(), 3) + "/pyopencl/.libs/libpocl*.so*";
  glob_t matches{};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0)
    for (size_t i = 0; i < matches.gl_pathc; ++i) found.emplace_back(matches.gl_pathv[i]);
  globfree(&matches);
  return found;
}

// Intel's CPU driver as PyPI's intel-opencl-rt installs it: in the environment's lib, where no loader looks.
std::string intel_candidate() { return folder_above(plugin_folder(), 5) + "/libintelocl.so"; }

std::string name_of(const Platform& platform) { return platform_text(*platform.api, platform.id, CL_PLATFORM_NAME); }

// Adds the platforms of a driver file that are not among `platforms` yet; `why` says what is in the way of a file that is there.
void add_driver(const std::string& path, std::vector<Platform>& platforms, std::string& why) {
  if (access(path.c_str(), R_OK) != 0) return;
  for (const Platform& found : platforms_of_driver(path, why)) {
    const std::string name = name_of(found);
    const auto same = [&name](const Platform& known) { return name_of(known) == name; };
    if (std::none_of(platforms.begin(), platforms.end(), same)) platforms.push_back(found);
  }
}

}  // namespace

std::string plugin_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&plugin_folder), &info) || !info.dli_fname) return ".";
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool ensure_linker() {
  const char* value = std::getenv("PATH");
  const std::string path = value ? value : "/usr/bin:/bin";  // what execvp takes where PATH is unset
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin && access((path.substr(begin, end - begin) + "/ld").c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  for (const char* folder : {"/usr/bin", "/usr/local/bin", "/bin"}) {
    if (access((std::string(folder) + "/ld").c_str(), X_OK) != 0) continue;
    setenv("PATH", (path + ":" + folder).c_str(), 1);
    return true;
  }
  return false;
}

LoadResult load_platforms(int thread_budget) {
  if (thread_budget > 0) {
    default_environment("POCL_MAX_PTHREAD_COUNT", std::to_string(thread_budget));  // PoCL up to 4
    default_environment("POCL_CPU_MAX_CU_COUNT", std::to_string(thread_budget));   // PoCL 5 and later
  }
  LoadResult result;
  std::string why;
  result.platforms = platforms_of_loader(why);
  add_driver(intel_candidate(), result.platforms, result.warning);
  if (!result.platforms.empty()) return result;
  std::string tried;
  for (const std::string& path : pocl_candidates()) {
    std::string reason;
    result.platforms = platforms_of_driver(path, reason);
    if (!result.platforms.empty()) return result;
    tried += "; " + reason;
  }
  result.error = "missing: libOpenCL.so.1 (" + why + tried +
                 "). Install your device's OpenCL driver, or a driver for this machine's cores: "
                 "pip install pocl-binary-distribution";
  return result;
}

}  // namespace ralcl
