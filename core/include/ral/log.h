// Log lines of the RAL and its plugins: to stderr, or to a sink that the layer above sets.
//
// $RAL_LOG (debug, info, warning, error) is the least level shown; warning where it is not set.
#pragma once
#include <string>

#include "ral/status.h"

namespace ral {

// Shows or hands on one line, where `level` is high enough.
RAL_API void log(ral_log_level level, const std::string& text) noexcept;
// Called instead of writing to stderr, from any thread and possibly with locks of the RAL held; nullptr restores
// stderr. It must not throw, call the RAL or wait for Python's GIL: put the text into a queue.
RAL_API void set_log_sink(void (*sink)(ral_log_level level, const char* text)) noexcept;

}  // namespace ral
