// What was found, and its JSON text.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ral_verify {

struct Failure {
  std::string name, message;
};

// Checks of one kind: how many held, and those that did not.
struct Checks {
  int passed = 0;
  std::vector<Failure> failures;
  // Runs `check`, which throws std::exception where it does not hold.
  template <class F>
  void run(const std::string& name, F&& check);
  std::vector<std::pair<std::string, double>> measured;  // name with unit, number
};

struct KernelReport {
  std::string op, symbol;
  int passed = 0, failed = 0, declined = 0;
  int refused = 0;                // cases that the reference tier does not compute
  std::string not_judged_reason;  // "": judged
  std::string declined_reason;    // the first
  std::vector<Failure> failures;  // the first few; `failed` counts all
  int64_t ns = -1;                // one call on about 1 M float32 elements; -1: not measured
  std::string ns_missing_reason;
};

struct DeviceReport {
  std::string id, name;
  std::vector<KernelReport> kernels;
  Checks memory, streams;
};

struct Report {
  std::string plugin, version, path;
  std::vector<std::string> problems;  // manifest entries that cannot be used
  std::vector<DeviceReport> devices;

  int failed() const;  // everything that is wrong, of all devices
  std::string json() const;
};

template <class F>
void Checks::run(const std::string& name, F&& check) {
  try {
    check();
    ++passed;
  } catch (const std::exception& error) {
    failures.push_back({name, error.what()});
  }
}

// The line on stderr that says what is being done, for whoever finds the process gone.
void progress(const std::string& what);

}  // namespace ral_verify
