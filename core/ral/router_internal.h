// What the router tells its neighbours inside libral.
#pragma once
#include <string>

#include "ral/plugin.h"

namespace ral {

class Device;

// The op that a native kernel belongs to, for messages; "" when unknown.
std::string kernel_op_name(ral_kernel kernel);
// Marks the device lost and tells the trace.
void device_lost_notice(Device& device) noexcept;

}  // namespace ral
