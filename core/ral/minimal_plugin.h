// The minimal form of a plugin (four functions named after the vendor) dressed as the full one.
#pragma once
#include <string>

#include "ral/plugin.h"

namespace ral {

// nullptr with *problem when the library lacks one of the functions. `library` is a dlopen handle.
const ral_plugin* minimal_plugin(int slot, void* library, const std::string& vendor, std::string* problem);

}  // namespace ral
