// The events' JSON text.
#include "events.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace ral_verify {

namespace {

FILE* g_events = stdout;

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

std::string or_null(const std::string& text) { return text.empty() ? "null" : quoted(text); }

using Members = std::vector<std::pair<const char*, std::string>>;

void say(const Members& members) {
  std::string line;
  for (const auto& [name, json] : members) line += (line.empty() ? "" : ", ") + quoted(name) + ": " + json;
  std::fprintf(g_events, "{%s}\n", line.c_str());
  std::fflush(g_events);
}

void say_result(const char* result, const std::string& message) {
  say({{"result", quoted(result)}, {"message", quoted(message)}});
}

}  // namespace

void open_events() {
  const int own = dup(STDOUT_FILENO);
  g_events = own < 0 ? nullptr : fdopen(own, "w");
  if (!g_events || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw std::runtime_error(std::string("no second descriptor for stdout: ") + std::strerror(errno));
}

void say_plugin(const std::string& name, const std::string& version, const std::string& path,
                const std::vector<std::string>& problems) {
  std::string list;
  for (const std::string& problem : problems) list += (list.empty() ? "" : ", ") + quoted(problem);
  say({{"plugin", quoted(name)}, {"version", quoted(version)}, {"path", quoted(path)}, {"problems", "[" + list + "]"}});
}

void say_device(const std::string& id, const std::string& name) {
  say({{"device", quoted(id)}, {"name", quoted(name)}});
}

void say_part(int number, const std::string& device, const std::string& name, const std::string& symbol) {
  say({{"part", std::to_string(number)},
       {"device", quoted(device)},
       {"name", quoted(name)},
       {"symbol", or_null(symbol)}});
}

void say_not_judged(const std::string& aspect, const std::string& why) {
  say({{"aspect", or_null(aspect)}, {"not_judged", quoted(why)}});
}

void say_case(const std::string& name, const std::string& aspect) {
  say({{"case", quoted(name)}, {"aspect", or_null(aspect)}});
}

void say_passed() { say({{"result", quoted("passed")}}); }
void say_failed(const std::string& message) { say_result("failed", message); }
void say_declined(const std::string& message) { say_result("declined", message); }
void say_without_reference(const std::string& message) { say_result("without_reference", message); }

void say_measured(const std::string& name, double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  say({{"measured", quoted(name)}, {"value", text}});
}

void say_not_measured(const std::string& name, const std::string& why) {
  say({{"measured", quoted(name)}, {"value", "null"}, {"message", quoted(why)}});
}

void say_done() { say({{"done", "true"}}); }

}  // namespace ral_verify
