// The manifest's reader under libFuzzer: built where the compiler is Clang, run by tools/fuzz.sh.
#include <cstdint>
#include <cstdlib>

#include "manifest_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::check_text(std::string(reinterpret_cast<const char*>(data), size));
  if (check::failures() > 0) std::abort();  // libFuzzer keeps the input
  return 0;
}
