// What happens, as it happens: one JSON object a line on the process's stdout. Whoever reads them has everything up to
// a crash.
//
//   {"plugin": "mychip", "version": "1.0", "path": "/...", "problems": ["..."]}
//   {"device": "ral:0", "name": "..."}
//   {"part": 3, "device": "ral:0", "name": "aten::add.Tensor", "symbol": "add"}   memory and streams: symbol null
//   {"aspect": "in place", "not_judged": "..."}                                   aspect null: the whole kernel
//   {"case": "(T T i1), float32, rank 2", "aspect": "values"}
//   {"result": "passed"}   failed, declined, without_reference: with "message"
//   {"measured": "ns", "value": 1200}   or "value": null with "message"
//   {"done": true}
#pragma once
#include <string>
#include <vector>

namespace ral_verify {

// From now on stdout is for events; what a plugin prints there goes to stderr.
void open_events();

void say_plugin(const std::string& name, const std::string& version, const std::string& path,
                const std::vector<std::string>& problems);
void say_device(const std::string& id, const std::string& name);
void say_part(int number, const std::string& device, const std::string& name, const std::string& symbol = "");
void say_not_judged(const std::string& aspect, const std::string& why);
void say_case(const std::string& name, const std::string& aspect);
void say_passed();
void say_failed(const std::string& message);
void say_declined(const std::string& message);
void say_without_reference(const std::string& message);
void say_measured(const std::string& name, double value);
void say_not_measured(const std::string& name, const std::string& why);
void say_done();

// A check that throws std::exception where it does not hold.
template <class F>
void run_check(const std::string& name, F&& check) {
  say_case(name, "");
  try {
    check();
    say_passed();
  } catch (const std::exception& error) {
    say_failed(error.what());
  }
}

}  // namespace ral_verify
