// SHA-256 of a file (FIPS 180-4), for the allow list of plugins.
#pragma once
#include <string>

namespace ral {

// 64 lower-case hex digits; "" when the file cannot be read.
std::string sha256_file(const std::string& path);

}  // namespace ral
