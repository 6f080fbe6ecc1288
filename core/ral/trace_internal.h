// What the trace offers inside libral only.
#pragma once
#include "ral/trace.h"
#include "trace_file.h"

namespace ral::trace {

// The file, or nullptr: never made, failed, or a forked child.
File* file() noexcept;
// This thread's string id "<tid> <name>"; 0 while there is no file.
uint32_t thread_id() noexcept;
// Turns recording on or off after a lease began or ended.
void set_leased(bool leased);
// True when the parent of this forked child had a trace file or devices.
bool forked() noexcept;

}  // namespace ral::trace
