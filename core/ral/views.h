// The live BufferViews of a pool: which bytes of which block. Some 60 bytes of host memory a view.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ral/memory_pool.h"

namespace ral {

class ViewTable {
 public:
  void add(const ViewInfo& view);
  void remove(uint64_t id) noexcept;
  // By parent, in the order of their ids.
  std::unordered_map<uint64_t, std::vector<ViewInfo>> by_parent() const;

 private:
  struct Range {
    uint64_t parent, offset, bytes;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, Range> views;
  };
  Shard& shard(uint64_t id) noexcept { return shards_[id % shards_.size()]; }

  mutable std::array<Shard, 16> shards_;
};

}  // namespace ral
