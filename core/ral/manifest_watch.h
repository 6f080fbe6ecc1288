// Notices that a plugin's kernel_manifest.json was written anew while the process runs.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ral {

// Calls `changed(folder)` on a thread of its own each time that kernel_manifest.json in one of `folders` was written and
// closed, or moved into place. Where the system has no watches to give, one warning is logged and nothing is watched.
void watch_manifests(const std::vector<std::string>& folders, std::function<void(const std::string&)> changed);

}  // namespace ral
