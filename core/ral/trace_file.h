// The mapped trace file of this process: header, status, gauges, directory, strings and segments of trace_format.h.
//
// Everything but Writer::put is called rarely and takes a lock inside. There is at most one file a process; it is
// never closed. Its mapping is not inherited by forked children.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "ral/trace_format.h"

namespace ral::trace {

// One thread's way into its segment.
struct Writer {
  ral_trace_record* records = nullptr;
  ral_trace_segment* entry = nullptr;
  uint64_t head = 0;
  uint32_t mask = 0;
  uint32_t thread = 0;  // string id of "<tid> <name>"

  void put(const ral_trace_record& record, uint32_t thread_id) noexcept;
};

class File {
 public:
  // Makes the file; nullptr with *problem when it cannot be had (full disk, no writable folder).
  static File* create(const std::string& kernel_id, std::string* problem);

  const std::string& path() const noexcept { return path_; }
  ral_trace_header* header() noexcept { return header_; }
  ral_trace_gauge* gauges() noexcept { return gauges_; }

  void set_kernel_id(const std::string& id);
  void set_status(const std::string& json);
  // Appends the next string; false when the table is full.
  bool add_string(std::string_view text);
  // Lends a segment to `writer`; false when no space could be had.
  bool attach(Writer* writer);
  void detach(Writer* writer);
  void count_drop() noexcept;
  void calibrate_clock() noexcept;
  void touch() noexcept;  // keeps the file young: readers remove files of dead processes by age
  // Is any reader's lease running?
  bool leased(int64_t now_ns) const noexcept;

 private:
  File() = default;
  bool map(const std::string& folder, uint64_t process_start, std::string* problem);
  bool add_segment();

  std::string path_;
  int fd_ = -1;
  char* base_ = nullptr;
  uint64_t size_ = 0;
  uint32_t records_per_segment_ = RAL_TRACE_DEFAULT_RECORDS;
  ral_trace_header* header_ = nullptr;
  ral_trace_gauge* gauges_ = nullptr;
  ral_trace_segment* directory_ = nullptr;
  ral_trace_record* mapped_[RAL_TRACE_MAX_SEGMENTS] = {};
  int64_t refused_until_ns_ = 0;
  std::mutex mutex_;
};

// Removes files of dead processes that have not been touched for an hour.
void remove_stale_files(const std::string& folder);

}  // namespace ral::trace
