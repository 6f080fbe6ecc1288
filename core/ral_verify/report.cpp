// The report's totals and JSON text.
#include "report.h"

#include <cstdio>

namespace ral_verify {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (byte < 0x20 || byte == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else
      out += c;
  }
  return out + "\"";
}

template <class List, class F>
std::string list(const List& items, F&& text) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ", ") + text(item);
  return "[" + out + "]";
}

std::string failure(const Failure& f) {
  return "{\"case\": " + quoted(f.name) + ", \"message\": " + quoted(f.message) + "}";
}

std::string checks(const Checks& c) {
  std::string out = "{\"passed\": " + std::to_string(c.passed) + ", \"failed\": " + std::to_string(c.failures.size()) +
                    ", \"failures\": " + list(c.failures, failure);
  for (const auto& [name, number] : c.measured) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", number);
    out += ", " + quoted(name) + ": " + text;
  }
  return out + "}";
}

std::string or_null(const std::string& text) { return text.empty() ? "null" : quoted(text); }

std::string kernel(const KernelReport& k) {
  return "{\"op\": " + quoted(k.op) + ", \"symbol\": " + quoted(k.symbol) +
         ", \"passed\": " + std::to_string(k.passed) + ", \"failed\": " + std::to_string(k.failed) +
         ", \"declined\": " + std::to_string(k.declined) + ", \"declined_reason\": " + or_null(k.declined_reason) +
         ", \"without_reference\": " + std::to_string(k.refused) +
         ", \"not_judged_reason\": " + or_null(k.not_judged_reason) + ", \"failures\": " + list(k.failures, failure) +
         ", \"ns\": " + (k.ns < 0 ? "null" : std::to_string(k.ns)) +
         ", \"ns_missing_reason\": " + or_null(k.ns_missing_reason) + "}";
}

std::string device(const DeviceReport& d) {
  return "{\"id\": " + quoted(d.id) + ", \"name\": " + quoted(d.name) + ", \"kernels\": " + list(d.kernels, kernel) +
         ", \"memory\": " + checks(d.memory) + ", \"streams\": " + checks(d.streams) + "}";
}

}  // namespace

int Report::failed() const {
  int all = static_cast<int>(problems.size());
  for (const DeviceReport& d : devices) {
    all += static_cast<int>(d.memory.failures.size() + d.streams.failures.size());
    for (const KernelReport& k : d.kernels) all += k.failed;
  }
  return all;
}

std::string Report::json() const {
  int kernels = 0, passed = 0, wrong = 0, declined = 0, not_judged = 0;
  int64_t cases_passed = 0, cases_failed = 0, cases_declined = 0, cases_refused = 0;
  for (const DeviceReport& d : devices)
    for (const KernelReport& k : d.kernels) {
      ++kernels;
      cases_passed += k.passed;
      cases_failed += k.failed;
      cases_declined += k.declined;
      cases_refused += k.refused;
      if (k.failed)
        ++wrong;
      else if (k.passed)
        ++passed;
      else if (!k.not_judged_reason.empty())
        ++not_judged;
      else
        ++declined;
    }
  const auto field = [](const char* name, int64_t number) {
    return ", \"" + std::string(name) + "\": " + std::to_string(number);
  };
  return "{\"plugin\": " + quoted(plugin) + ", \"version\": " + quoted(version) + ", \"path\": " + quoted(path) +
         ", \"problems\": " + list(problems, quoted) + ", \"devices\": " + list(devices, device) +
         ", \"totals\": {\"kernels\": " + std::to_string(kernels) + field("passed", passed) + field("failed", wrong) +
         field("declined", declined) + field("not_judged", not_judged) + field("cases_passed", cases_passed) +
         field("cases_failed", cases_failed) + field("cases_declined", cases_declined) +
         field("cases_without_reference", cases_refused) + field("failures", failed()) + "}}";
}

void progress(const std::string& what) { std::fprintf(stderr, "ral-verify: at %s\n", what.c_str()); }

}  // namespace ral_verify
