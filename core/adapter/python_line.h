// Where in the user's Python code this thread is.
#pragma once
#include <cstdint>

namespace torch_fl {

// The innermost line outside torch and torch_fl_core as "file:line", interned for the trace; 0 where this thread runs no
// Python code (autograd's threads). Takes the GIL.
uint32_t python_line();

}  // namespace torch_fl
