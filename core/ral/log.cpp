// Log lines to stderr or a sink.
#include "ral/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ral {

namespace {

constexpr const char* kLevels[] = {"debug", "info", "warning", "error"};
std::atomic<void (*)(ral_log_level, const char*)> g_sink{nullptr};

ral_log_level least_level() {
  const char* word = std::getenv("RAL_LOG");
  for (ral_log_level i = RAL_LOG_DEBUG; word && i <= RAL_LOG_ERROR; ++i)
    if (std::strcmp(word, kLevels[i]) == 0) return i;
  return RAL_LOG_WARNING;
}

}  // namespace

void log(ral_log_level level, const std::string& text) noexcept {
  static const ral_log_level least = least_level();
  if (level < least) return;
  if (level > RAL_LOG_ERROR) level = RAL_LOG_ERROR;
  if (level < RAL_LOG_DEBUG) level = RAL_LOG_DEBUG;
  if (auto* sink = g_sink.load(std::memory_order_acquire)) {
    sink(level, text.c_str());
    return;
  }
  std::fprintf(stderr, "[ral] %s: %s\n", kLevels[level], text.c_str());
}

void set_log_sink(void (*sink)(ral_log_level, const char*)) noexcept { g_sink.store(sink, std::memory_order_release); }

}  // namespace ral
