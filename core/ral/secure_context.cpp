// Checks of plugin files, device nodes, descriptors and private folders.
#include "ral/secure_context.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "sha256.h"

namespace ral {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(RAL_ERROR_INVALID_ARGUMENT, text); }

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// A group with the user's name and no other member ("user private group", the default of Debian, Ubuntu and Fedora,
// often with umask 002) is the user.
bool is_private_group(gid_t group) {
  if (geteuid() == 0) return false;
  char text[4096];
  passwd user_entry, *user = nullptr;
  if (getpwuid_r(geteuid(), &user_entry, text, sizeof text, &user) != 0 || !user || user->pw_gid != group) return false;
  const std::string name = user->pw_name;
  struct group group_entry, *found = nullptr;
  char group_text[4096];
  if (getgrgid_r(group, &group_entry, group_text, sizeof group_text, &found) != 0 || !found) return false;
  if (name != found->gr_name) return false;
  for (char** member = found->gr_mem; member && *member; ++member)
    if (name != *member) return false;
  return true;
}

bool writable_by_others(const struct stat& info) {
  if (S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) && info.st_uid == 0) return false;  // /tmp: sticky protects
  if (info.st_mode & S_IWOTH) return true;
  return (info.st_mode & S_IWGRP) && !is_private_group(info.st_gid);
}

void check_owner(const std::string& path, const struct stat& info, const char* remedy = "install the plugin yourself") {
  if (info.st_uid != 0 && info.st_uid != geteuid())
    refuse(path + " belongs to user " + std::to_string(info.st_uid) + ", neither to root nor to you (" +
           std::to_string(geteuid()) + "); " + remedy);
  if (writable_by_others(info)) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(info.st_mode & 07777));
    refuse(path + " is writable by others (mode " + mode + "); run: chmod go-w " + path);
  }
}

void check_allow_list(const std::string& path) {
  const char* list = std::getenv("RAL_PLUGIN_ALLOW");
  if (!list || !*list) return;
  std::ifstream file(list);
  if (!file) refuse(std::string("RAL_PLUGIN_ALLOW names ") + list + ", which cannot be read: " + std::strerror(errno));
  const std::string sum = sha256_file(path);
  if (sum.empty()) refuse(path + " cannot be read");
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, 64, sum) == 0) return;
  refuse(path + " (SHA-256 " + sum + ") is not in the allow list " + list);
}

void make_folder(const std::string& path) {
  if (path.empty() || path == "/") return;
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  if (errno == ENOENT) {
    make_folder(folder_of(path));
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  }
  refuse("folder " + path + " cannot be made: " + std::strerror(errno));
}

const char* type_name(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a folder";
    case S_IFBLK: return "a block device";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    default: return "something else";
  }
}

// Does /proc/devices list the driver with this major number among the character devices?
bool has_major(const std::string& driver, unsigned wanted) {
  std::ifstream file("/proc/devices");
  for (std::string line; std::getline(file, line) && line != "Block devices:";) {
    std::istringstream words(line);
    unsigned major_number = 0;
    std::string name;
    if (words >> major_number >> name && name == driver && major_number == wanted) return true;
  }
  return false;
}

bool ends(const char* text, size_t size) { return std::memchr(text, '\0', size) != nullptr; }

}  // namespace

std::string SecureContext::check_plugin_file(const std::string& path) {
  const std::string real = check_file(path);
  check_allow_list(real);
  return real;
}

std::string SecureContext::check_file(const std::string& path) {
  char resolved[PATH_MAX];
  if (!realpath(path.c_str(), resolved)) refuse("plugin file " + path + " cannot be used: " + std::strerror(errno));
  const std::string real = resolved;
  struct stat info;
  if (stat(resolved, &info) != 0) refuse("plugin file " + real + " cannot be used: " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) refuse("plugin file " + real + " is not a regular file");
  check_owner(real, info);
  // The vendor's folder and the search folder above it.
  std::string folder = real;
  for (int level = 0; level < 2; ++level) {
    folder = folder_of(folder);
    if (stat(folder.c_str(), &info) != 0) refuse("folder " + folder + " cannot be used: " + std::strerror(errno));
    check_owner(folder, info);
  }
  return real;
}

std::string SecureContext::check_device_node(const std::string& path, const std::string& driver) {
  char resolved[PATH_MAX];
  struct stat info;
  if (!realpath(path.c_str(), resolved) || stat(resolved, &info) != 0)
    refuse("device node " + path + " cannot be used: " + std::strerror(errno));
  const std::string real = resolved;
  const std::string title = "device node " + path + (real == path ? "" : " (" + real + ")");
  if (!S_ISCHR(info.st_mode)) refuse(title + " is " + type_name(info.st_mode) + ", not a character device");
  if (!driver.empty() && !has_major(driver, major(info.st_rdev)))
    refuse(title + " has major number " + std::to_string(major(info.st_rdev)) + ", which is not driver " + driver +
           "'s in /proc/devices");
  const std::string folder = folder_of(real);
  if (stat(folder.c_str(), &info) != 0) refuse("folder " + folder + " cannot be used: " + std::strerror(errno));
  check_owner(folder, info, "use a node in /dev");
  return real;
}

void SecureContext::check_descriptor(const ral_device_info& info, const std::string& plugin) {
  const auto bad = [&plugin](const std::string& what) {
    refuse("plugin " + plugin + " describes a device that cannot be: " + what);
  };
  if (!ends(info.name, sizeof info.name) || !ends(info.vendor, sizeof info.vendor) ||
      !ends(info.driver, sizeof info.driver) || !ends(info.uuid, sizeof info.uuid))
    bad("a text without end");
  if (!info.name[0]) bad("it has no name");
  if (info.kind < RAL_DEVICE_CPU || info.kind > RAL_DEVICE_OTHER) bad("kind " + std::to_string(info.kind));
  if (info.total_memory == 0 || info.total_memory > (uint64_t(1) << 50))
    bad("total_memory " + std::to_string(info.total_memory) + " bytes");
  if (info.max_allocation > info.total_memory)
    bad("max_allocation " + std::to_string(info.max_allocation) + " bytes is more than total_memory " +
        std::to_string(info.total_memory));
  if (info.dtype_mask == 0) bad("dtype_mask 0: it stores no type");
  if (info.dtype_mask >> RAL_DTYPE_COUNT) bad("dtype_mask " + std::to_string(info.dtype_mask) + " has unknown types");
  if (info.alignment & (info.alignment - 1)) bad("alignment " + std::to_string(info.alignment) + " is no power of two");
  if (info.max_rank > 64) bad("max_rank " + std::to_string(info.max_rank));
}

std::string SecureContext::private_folder(const std::string& path) {
  make_folder(path);
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) refuse("folder " + path + " cannot be used: " + std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) refuse(path + " is not a folder");
  if (info.st_uid != geteuid())
    refuse("folder " + path + " belongs to user " + std::to_string(info.st_uid) + ", not to you");
  if ((info.st_mode & 0777) != 0700 && chmod(path.c_str(), 0700) != 0)
    refuse("folder " + path + " cannot be made private: " + std::strerror(errno));
  if (access(path.c_str(), W_OK | X_OK) != 0) refuse("folder " + path + " cannot be written: " + std::strerror(errno));
  return path;
}

}  // namespace ral

ral_status ral_secure_check_node(const char* path, const char* driver, char* text, uint64_t text_bytes) {
  std::string said;
  ral_status status = RAL_SUCCESS;
  try {
    said = ral::SecureContext::check_device_node(path, driver);
  } catch (const ral::Error& error) {
    said = error.what();
    status = error.code();
  }
  if (text && text_bytes > 0) {
    const size_t n = std::min<size_t>(said.size(), text_bytes - 1);
    std::memcpy(text, said.data(), n);
    text[n] = '\0';
  }
  return status;
}
