// cl_loader.h - find the OpenCL libraries of this machine and list their platforms.
#pragma once

#include <string>
#include <vector>

#include "cl_api.h"

namespace ralcl {

struct Platform {
  const Api* api;  // how its objects are called; lives until the process ends
  cl_platform_id id;
};

struct LoadResult {
  std::vector<Platform> platforms;
  std::string error;    // why `platforms` is empty, with the cure
  std::string warning;  // a driver that is there and cannot be used
};

// All platforms of libOpenCL.so.1 and Intel's CPU driver from PyPI, where that is in the environment that this plugin was
// installed into; where there are none, those of PoCL from PyPI ($RAL_POCL_PATH, else in the same environment). `thread_budget` above 0 limits the threads
// of a CPU driver that has not started yet.
LoadResult load_platforms(int thread_budget);

// PoCL ends the process when it needs the linker `ld` and finds none on the PATH. True where it will find
// one; a linker in a system folder that the PATH leaves out is made reachable at the PATH's end.
bool ensure_linker();

// The folder that holds this shared library, without a final slash.
std::string plugin_folder();

}  // namespace ralcl
