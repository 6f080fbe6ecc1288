// Small things that the pool needs from its neighbours.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "ral/memory_pool.h"
#include "ral/trace_format.h"

namespace ral {

class Device;
class Stream;

// Where the pool keeps its free lists of a stream.
std::atomic<void*>& pool_cache_slot(Stream& stream) noexcept;
// Waits for a sequence number without raising: errors stay with the stream.
void settle(Stream& stream, uint64_t sequence) noexcept;
// Must the RAL copy by itself, since the plugin has no copy functions?
bool needs_host_copies(const Device& device) noexcept;
// "ral:0 (PoCL cpu-haswell)".
std::string device_title(const Device& device);

void emit_buffer(uint8_t kind, const Block& block, uint32_t flags) noexcept;
void emit_view(const Block& block, uint64_t id, uint64_t byte_offset, uint64_t bytes) noexcept;
void emit_view_end(const Block& block, uint64_t id, uint64_t bytes) noexcept;
// Names the record and writes it.
void emit_sync(ral_trace_record& record, const Device& device, const Stream& stream, const char* why) noexcept;

}  // namespace ral
