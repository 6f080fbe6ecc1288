// kernel_manifest.json: text to entries, checked against the schema.
#pragma once
#include <string>
#include <vector>

#include "ral/plugin.h"

namespace ral {

struct ManifestEntry {
  std::string op_name, path, symbol, dialect;
  double cost = 1.0;
  uint32_t dtype_mask = 0;
  int min_rank = 0, max_rank = 8;
  bool requires_contiguous = false;
  int64_t max_elements = 0;
};

// False when the text is no JSON object with an array "kernels": *problems then holds one line. Else the valid entries,
// and a line for each entry that was left out. `folder` is where relative kernel paths begin.
bool read_manifest(const std::string& json, const std::string& folder, std::vector<ManifestEntry>* entries,
                   std::vector<std::string>* problems);

}  // namespace ral
