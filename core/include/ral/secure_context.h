// SecureContext: what a plugin file, a device node, a descriptor and a folder must be before they are trusted.
#pragma once
#include <string>

#include "ral/plugin.h"
#include "ral/status.h"

namespace ral {

// Checks that hold no state; each throws, or gives back what may be used.
class RAL_API SecureContext {
 public:
  // The resolved path of a plugin library. Throws INVALID_ARGUMENT naming path and cause when it does not exist, is not
  // a regular file owned by root or the user, or it or a parent folder up to the search folder is writable by others,
  // or (with $RAL_PLUGIN_ALLOW, a file of SHA-256 sums) is not listed.
  static std::string check_plugin_file(const std::string& path);
  // The same for a file beside it, such as its manifest; the list of sums does not apply.
  static std::string check_file(const std::string& path);
  // The resolved path of a device node, such as /dev/dri/renderD128. Throws INVALID_ARGUMENT naming path and cause when it
  // is no character device (links are followed: one to a regular file is refused), is not one of `driver`'s, a name
  // in /proc/devices such as "drm" ("": any driver's), or lies in a folder that others could put a node into. Opens
  // nothing: a FIFO does not block it. For code on libral that is about to open a node, and for `ralctl doctor`.
  static std::string check_device_node(const std::string& path, const std::string& driver);
  // Throws INVALID_ARGUMENT naming the value when a descriptor cannot be true (memory over 2^50 bytes, no name,
  // unknown dtypes or kind, alignment not a power of two).
  static void check_descriptor(const ral_device_info& info, const std::string& plugin);
  // Private folder (0700, owned by the user), made when missing. Throws when it cannot be.
  static std::string private_folder(const std::string& path);
};

}  // namespace ral

extern "C" {
// For callers through a foreign function interface: SecureContext::check_device_node. Its sentence, or the resolved path
// where the node may be used, is written to `text`, at most `text_bytes` bytes with the NUL.
RAL_API ral_status ral_secure_check_node(const char* path, const char* driver, char* text, uint64_t text_bytes);
}
