// The streams of a device: a fixed table, read without a lock.
#pragma once
#include <atomic>
#include <mutex>

#include "ral/async_stream.h"
#include "ral/device_manager.h"

namespace ral {

constexpr int64_t kMaxStreams = 1024;

struct Device::Streams {
  std::mutex mutex;  // of new_stream
  std::atomic<int64_t> count{0};
  std::atomic<Stream*> table[kMaxStreams] = {};
};

}  // namespace ral
