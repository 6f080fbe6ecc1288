// Views come and go on every thread that records: shards by id.
#include "views.h"

#include <algorithm>

namespace ral {

void ViewTable::add(const ViewInfo& view) {
  Shard& at = shard(view.id);
  std::lock_guard<std::mutex> guard(at.mutex);
  at.views.emplace(view.id, Range{view.parent, view.offset, view.bytes});
}

void ViewTable::remove(uint64_t id) noexcept {
  Shard& at = shard(id);
  std::lock_guard<std::mutex> guard(at.mutex);
  at.views.erase(id);
}

std::unordered_map<uint64_t, std::vector<ViewInfo>> ViewTable::by_parent() const {
  std::unordered_map<uint64_t, std::vector<ViewInfo>> out;
  for (Shard& at : shards_) {
    std::lock_guard<std::mutex> guard(at.mutex);
    for (const auto& [id, range] : at.views) out[range.parent].push_back({id, range.parent, range.offset, range.bytes});
  }
  for (auto& [parent, views] : out)
    std::sort(views.begin(), views.end(), [](const ViewInfo& a, const ViewInfo& b) { return a.id < b.id; });
  return out;
}

}  // namespace ral
