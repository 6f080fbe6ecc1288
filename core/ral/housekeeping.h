// The "ral-trace" thread: looks after leases, gauges, the clock and finished work while a trace file exists.
#pragma once

namespace ral::trace {

void start_housekeeping();
// Waits for the round in progress and ends the thread's work; called once at process end.
void stop_housekeeping();

}  // namespace ral::trace
