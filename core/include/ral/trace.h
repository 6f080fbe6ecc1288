// The trace: one writer side for the ring file of trace_format.h. Off costs one predicted branch.
//
// Every function may be called from any thread, holds no lock on the recording path and never takes Python's GIL.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "ral/status.h"
#include "ral/trace_format.h"

// The writer of the trace file.
namespace ral::trace {

// What enabled() reads; 1 while recording.
RAL_API extern std::atomic<uint32_t> g_enabled;
// Is recording on? Cheap enough to ask before every record.
inline bool enabled() noexcept { return __builtin_expect(g_enabled.load(std::memory_order_relaxed) != 0, 0); }

RAL_API int64_t now() noexcept;       // CLOCK_MONOTONIC, nanoseconds
RAL_API uint64_t next_id() noexcept;  // correlation and buffer ids, from 1
// The id of a string, the same for equal strings; 0 when the table is full. Cheap for a string seen before on this thread.
RAL_API uint32_t intern(std::string_view text);
RAL_API std::string text_of(uint32_t id);  // "" for an unknown one

// What surrounds a record on this thread; set by whoever stands above (RecordFunction observer, Python lines).
struct Context {
  uint32_t location = 0, inner_location = 0, forward_location = 0;
  uint32_t op = 0;  // name of the innermost operator, for ALLOC, FREE and VIEW
  uint64_t correlation = 0;
  int64_t sequence_number = -1;
  bool backward = false;
};
RAL_API Context& context() noexcept;  // this thread's
// Line of the thread that last set one; used by threads without a line of their own (autograd's).
RAL_API extern std::atomic<uint64_t> g_main_location;  // location | inner_location << 32

RAL_API uint32_t line() noexcept;  // the innermost line known here, as a location id; 0 where none is

// A record with the surroundings filled in; begin and end are now.
RAL_API ral_trace_record make(uint8_t kind) noexcept;
// The same, but begin and end are `at`, in nanoseconds as now() gives them.
RAL_API ral_trace_record make(uint8_t kind, int64_t at) noexcept;
// Writes it (sequence and thread are set here). Does nothing when not enabled.
RAL_API void emit(const ral_trace_record& record) noexcept;
// Emits MARK with this text as its name.
RAL_API void mark(std::string_view text);

// The file; made at first call together with the housekeeping thread (leases, clock, reaping, gauges). "" after a failure
// such as a full disk: recording is then off, with one logged warning.
RAL_API std::string path();
RAL_API void acquire();         // recording on, counted; emits the snapshot of live buffers at 0 -> 1
RAL_API void release();         // undoes one acquire; recording ends with the last. Throws INVALID_ARGUMENT without one
RAL_API void flush(bool wait);  // reap all devices' finished work; wait: for their queues first
RAL_API void set_kernel_id(const std::string& id);  // Jupyter's, for the header; at most 63 bytes are kept
// The status text. Throws INVALID_ARGUMENT when it is over RAL_TRACE_STATUS_BYTES.
RAL_API void set_status(const std::string& json);
RAL_API ral_trace_gauge* gauge(int device) noexcept;  // nullptr before the file exists; members are updated atomically
// Child of a fork: drop the mapping, never write it again.
RAL_API void after_fork_child() noexcept;

}  // namespace ral::trace
