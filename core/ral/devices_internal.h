// Sweeps over all devices, for the trace and the end of the process. None of them discovers devices.
#pragma once

namespace ral {

class Device;

// True in a forked child whose parent had devices: nothing of theirs may be touched.
bool devices_forked() noexcept;
// True once the process is ending and plugins were told to shut down.
bool devices_closed() noexcept;
// Throws an Error in a forked child, or after the devices were closed.
void require_devices();

void reap_all() noexcept;        // collect finished work into the trace
void drain_all() noexcept;       // wait for all queues; errors stay with their streams
void refresh_gauges() noexcept;  // copy the pools' numbers into the trace file
// Registers the handler that runs in forked children; once.
void watch_forks();
// A device was used for the first time, or lost: the status text changes.
void device_changed(Device& device) noexcept;

}  // namespace ral
