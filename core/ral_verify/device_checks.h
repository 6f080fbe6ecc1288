// Checks of a device's memory, copies, streams and events.
#pragma once
#include "ral/device_manager.h"

namespace ral_verify {

// Round trips of odd sizes at odd offsets, copies on the device, and bandwidth in GB/s where `speed`.
void check_memory(ral::Device& device, bool speed);
// Two streams: order by events, waiting, times.
void check_streams(ral::Device& device);

}  // namespace ral_verify
