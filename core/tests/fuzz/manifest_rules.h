// What holds for any text that the manifest's reader is given. Shared by fuzz_manifest, which changes real manifests, and by
// libfuzzer_manifest, which follows the reader's branches.
#pragma once
#include <string>
#include <vector>

#include "check.h"
#include "manifest.h"

namespace fuzz {

using ral::ManifestEntry;

inline bool is_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const int more = byte < 0x80 ? 0 : byte >> 5 == 6 ? 1 : byte >> 4 == 14 ? 2 : byte >> 3 == 30 ? 3 : -1;
    if (more < 0 || i + static_cast<size_t>(more) >= text.size()) return false;
    for (int k = 1; k <= more; ++k)
      if ((text[i + static_cast<size_t>(k)] & 0xC0) != 0x80) return false;
    i += static_cast<size_t>(more) + 1;
  }
  return true;
}

// What a plugin is handed is a C text inside the manifest's folder, and numbers in the schema's bounds.
inline void check_entry(const ManifestEntry& e) {
  for (const std::string& text : {e.op_name, e.path, e.symbol, e.dialect}) {
    CHECK(is_utf8(text));
    CHECK(text.find('\0') == std::string::npos);
  }
  CHECK(!e.op_name.empty() && !e.path.empty() && !e.symbol.empty());
  CHECK(e.path[0] == '/' && ("/" + e.path + "/").find("/../") == std::string::npos);
  CHECK(e.dtype_mask != 0 && e.dtype_mask >> RAL_DTYPE_COUNT == 0);
  CHECK(e.min_rank >= 0 && e.min_rank <= e.max_rank && e.max_rank <= 64);
  CHECK(e.cost >= 0 && e.max_elements >= 0);
}

// Problems go into the report, the log and the status text, which is JSON: printable, and bounded in size.
inline void check_problems(const std::vector<std::string>& problems) {
  CHECK(problems.size() <= 16384);
  for (const std::string& problem : problems) CHECK(!problem.empty() && problem.size() < 16384 && is_utf8(problem));
}

inline bool check_text(const std::string& text) {
  std::vector<ManifestEntry> entries;
  std::vector<std::string> problems;
  const bool read = read_manifest(text, "/folder", &entries, &problems);
  if (!read) {
    CHECK_EQ(problems.size(), 1u);
    CHECK(entries.empty());
  }
  for (const ManifestEntry& entry : entries) check_entry(entry);
  check_problems(problems);
  return read;
}

}  // namespace fuzz
