// Memory and streams, through the pool and the streams of libral as all users of a device see them.
#include "device_checks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "events.h"
#include "ral/async_stream.h"
#include "ral/memory_pool.h"
#include "ral/trace_format.h"

namespace ral_verify {

namespace {

using Bytes = std::vector<unsigned char>;

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

Bytes pattern(size_t size, unsigned seed) {
  Bytes bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (unsigned char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

void require_equal(const Bytes& got, const Bytes& wanted, const std::string& what) {
  require(got.size() == wanted.size(), what + ": sizes differ");
  const auto wrong = std::mismatch(got.begin(), got.end(), wanted.begin());
  if (wrong.first == got.end()) return;
  throw std::runtime_error(what + ": byte " + std::to_string(wrong.first - got.begin()) + " of " +
                           std::to_string(got.size()) + " is " + std::to_string(*wrong.first) + ", " +
                           std::to_string(*wrong.second) + " was written");
}

// A block of the pool, and copies to and from it.
class Buffer {
 public:
  Buffer(ral::Device& device, ral::Stream& stream, size_t bytes)
      : stream_(stream), block_(device.pool().allocate(bytes, stream)) {
    place_ = ral::MemoryPool::place(block_->address, device);
  }
  ~Buffer() { block_->device->pool().free(block_); }
  Buffer(const Buffer&) = delete;

  void write(const Bytes& from, size_t offset, ral::Stream* on = nullptr) {
    stream(on).copy_from_host(place_.handle, place_.offset + offset, from.data(), from.size(), note());
  }
  void read(Bytes& to, size_t offset, ral::Stream* on = nullptr) {
    stream(on).copy_to_host(to.data(), place_.handle, place_.offset + offset, to.size(), note());
  }
  void copy_from(const Buffer& from, size_t from_offset, size_t offset, size_t bytes, ral::Stream* on = nullptr) {
    stream(on).copy_on_device(place_.handle, place_.offset + offset, from.place_.handle,
                              from.place_.offset + from_offset, bytes, note());
  }
  void wait() { stream_.wait(stream_.submitted()); }

 private:
  ral::Stream& stream(ral::Stream* on) { return on ? *on : stream_; }
  static ral::WorkNote note() {
    ral::WorkNote note;
    note.kind = RAL_TRACE_COPY;
    return note;
  }
  ral::Stream& stream_;
  ral::Block* block_;
  ral::MemoryPlace place_;
};

void round_trip(ral::Device& device, size_t bytes, size_t offset) {
  Buffer buffer(device, device.default_stream(), bytes + offset + 7);
  const Bytes around = pattern(bytes + offset + 7, 1), wanted = pattern(bytes, 2);
  buffer.write(around, 0);
  buffer.write(wanted, offset);
  Bytes got(bytes), whole(around.size());
  buffer.read(got, offset);
  buffer.read(whole, 0);
  buffer.wait();
  require_equal(got, wanted, "host to device to host");
  Bytes expected = around;
  std::memcpy(expected.data() + offset, wanted.data(), bytes);
  require_equal(whole, expected, "the bytes around a copy");
}

void device_copy(ral::Device& device, size_t bytes, size_t from_offset, size_t to_offset) {
  Buffer from(device, device.default_stream(), bytes + from_offset);
  Buffer to(device, device.default_stream(), bytes + to_offset + 7);
  const Bytes wanted = pattern(bytes, 3), around = pattern(bytes + to_offset + 7, 4);
  from.write(wanted, from_offset);
  to.write(around, 0);
  to.copy_from(from, from_offset, to_offset, bytes);
  Bytes whole(around.size());
  to.read(whole, 0);
  to.wait();
  Bytes expected = around;
  std::memcpy(expected.data() + to_offset, wanted.data(), bytes);
  require_equal(whole, expected, "device to device");
}

void disjoint(ral::Device& device) {
  constexpr size_t kCount = 40;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (size_t i = 0; i < kCount; ++i) {
    buffers.push_back(std::make_unique<Buffer>(device, device.default_stream(), 100 * i + 1));
    const Bytes wanted = pattern(100 * i + 1, static_cast<unsigned>(i));
    buffers[i]->write(wanted, 0);
    buffers[i]->wait();
  }
  for (size_t i = 0; i < kCount; ++i) {
    Bytes got(100 * i + 1);
    buffers[i]->read(got, 0);
    buffers[i]->wait();
    require_equal(got, pattern(got.size(), static_cast<unsigned>(i)), "allocation " + std::to_string(i));
  }
}

// GB/s of the best of three copies.
template <class F>
double bandwidth(size_t bytes, F&& copy) {
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const auto start = std::chrono::steady_clock::now();
    copy();
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    if (i > 0 && ns > 0) best = std::max(best, static_cast<double>(bytes) / ns);  // the first touches the memory
  }
  return best;
}

void measure_copies(ral::Device& device) {
  constexpr size_t kBytes = size_t{16} << 20;
  Bytes host(kBytes, 1);
  Buffer a(device, device.default_stream(), kBytes), b(device, device.default_stream(), kBytes);
  const auto timed = [&](const char* name, auto&& copy) {
    say_measured(name, bandwidth(kBytes, [&] {
                   copy();
                   a.wait();
                 }));
  };
  timed("host_to_device_gb_s", [&] { a.write(host, 0); });
  timed("device_to_host_gb_s", [&] { a.read(host, 0); });
  timed("device_to_device_gb_s", [&] { b.copy_from(a, 0, 0, kBytes); });
}

// Work of one stream, then, behind an event, of another.
void events_order(ral::Device& device) {
  constexpr size_t kBytes = (size_t{4} << 20) + 13;
  ral::Stream &first = device.new_stream(0), &second = device.new_stream(0);
  Buffer a(device, first, kBytes), b(device, second, kBytes);
  Bytes got(kBytes);
  for (unsigned round = 0; round < 4; ++round) {
    const Bytes wanted = pattern(kBytes, 10 + round);
    ral::Event written, copied;
    a.write(wanted, 0, &first);
    written.record(first);
    second.wait_event(written);
    b.copy_from(a, 0, 0, kBytes, &second);
    copied.record(second);
    first.wait_event(copied);  // before the next round overwrites
    b.read(got, 0, &second);
    second.synchronize();
    first.synchronize();
    require_equal(got, wanted, "copied behind an event, round " + std::to_string(round));
  }
}

void events_finish(ral::Device& device) {
  ral::Stream& stream = device.new_stream(0);
  Buffer buffer(device, stream, size_t{1} << 20);
  const Bytes host = pattern(size_t{1} << 20, 5);
  ral::Event before, after;
  before.record(stream);
  buffer.write(host, 0);
  after.record(stream);
  after.synchronize();
  require(after.query(), "an event that was waited for is not finished");
  require(before.query(), "an event before one that was waited for is not finished");
  const double ms = after.elapsed_since(before);
  require(ms >= 0, "a later event lies " + std::to_string(-ms) + " ms before an earlier one of its stream");
}

void synchronize_waits(ral::Device& device) {
  ral::Stream& stream = device.new_stream(0);
  Buffer buffer(device, stream, size_t{1} << 20);
  const Bytes host = pattern(size_t{1} << 20, 6);
  buffer.write(host, 0);
  stream.synchronize();
  require(stream.query(), "a stream that was synchronised has unfinished work");
  Bytes got(host.size());
  buffer.read(got, 0);
  device.synchronize();
  require_equal(got, host, "read after the device was synchronised");
}

}  // namespace

void check_memory(ral::Device& device, bool speed) {
  for (size_t bytes : {size_t{1}, size_t{3}, size_t{17}, size_t{255}, size_t{4097}, (size_t{1} << 20) + 3})
    for (size_t offset : {size_t{0}, size_t{1}, size_t{5}, size_t{64}, size_t{1021}}) {
      const std::string where = std::to_string(bytes) + " bytes at offset " + std::to_string(offset);
      run_check("round trip of " + where, [&] { round_trip(device, bytes, offset); });
      run_check("copy on the device of " + where, [&] { device_copy(device, bytes, offset, 3 * offset + 1); });
    }
  run_check("40 allocations do not overlap", [&] { disjoint(device); });
  if (speed) run_check("bandwidth", [&] { measure_copies(device); });
}

void check_streams(ral::Device& device) {
  run_check("events order two streams", [&] { events_order(device); });
  run_check("events finish, with times in order", [&] { events_finish(device); });
  run_check("synchronising waits", [&] { synchronize_waits(device); });
}

}  // namespace ral_verify
