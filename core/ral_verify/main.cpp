// ral-verify: the conformance suite for a plugin folder. `ralctl verify` is its front.
//
// Progress on stderr; the last line of stdout is the report as JSON. Exit status: 0 nothing failed, 1 something failed,
// 2 wrong usage or a plugin that does not load.
#include <cstdio>
#include <sstream>

#include "device_checks.h"
#include "kernels.h"
#include "plugin_folder.h"
#include "ral/kernel_router.h"

namespace ral_verify {

namespace {

constexpr const char* kUsage =
    "usage: ral-verify PATH [--ops NAME,...] [--dtypes NAME,...] [--no-speed]\n"
    "  PATH      a folder with lib<vendor>_plugin.so and kernel_manifest.json\n"
    "  --ops     only these operators: add, add.Tensor or aten::add.Tensor\n"
    "  --dtypes  only these types: float32, int64, ...\n"
    "  --no-speed  measure no times\n";

struct Options {
  std::string path;
  Choice choice;
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw UsageError(word + " needs a list of names");
      return std::string(argv[++i]);
    };
    if (word == "--ops") {
      options.choice.ops = words_of(value());
    } else if (word == "--dtypes") {
      for (const std::string& name : words_of(value())) {
        ral_dtype dtype;
        if (!ral::dtype_from_name(name, &dtype)) throw UsageError("\"" + name + "\" is no data type; one is float32");
        options.choice.dtypes.push_back(dtype);
      }
    } else if (word == "--no-speed") {
      options.choice.speed = false;
    } else if (word.size() > 1 && word[0] == '-') {
      throw UsageError("\"" + word + "\" is no option");
    } else if (options.path.empty()) {
      options.path = word;
    } else {
      throw UsageError("two folders were named, " + options.path + " and " + word + "; name one");
    }
  }
  if (options.path.empty()) throw UsageError("no plugin folder was named");
  return options;
}

// A name in --ops that the plugin has no kernel for is a mistake, not a pass.
void check_ops(const Choice& choice, const std::vector<ral::Device*>& devices) {
  for (const std::string& word : choice.ops) {
    bool known = false;
    for (ral::Device* device : devices)
      for (const std::string& op : ral::KernelRouter::get().ops(*device)) known |= chosen({{word}, {}, true}, op);
    if (!known)
      throw UsageError("--ops names \"" + word +
                       "\", which the plugin's manifest does not have; leave it out, or add it");
  }
}

std::vector<std::string> problems_of(const std::string& reason) {
  const std::string found_twice = reason.substr(0, reason.find("not used, found later: "));
  return found_twice.empty() ? std::vector<std::string>{} : std::vector<std::string>{found_twice};
}

Report verify(const Options& options) {
  progress("loading " + options.path);
  const Loaded loaded = load_folder(options.path);
  check_ops(options.choice, loaded.devices);
  Report report;
  report.plugin = loaded.report.name;
  report.version = loaded.report.version;
  report.path = loaded.report.path;
  report.problems = problems_of(loaded.report.reason);
  for (ral::Device* device : loaded.devices) {
    DeviceReport found;
    found.id = "ral:" + std::to_string(device->index());
    found.name = device->info().name;
    found.memory = check_memory(*device, options.choice.speed);
    found.streams = check_streams(*device);
    found.kernels = judge_kernels(*device, options.choice);
    report.devices.push_back(std::move(found));
  }
  return report;
}

int run(int argc, char** argv) {
  try {
    const Report report = verify(parse(argc, argv));
    progress("the end");
    std::printf("%s\n", report.json().c_str());
    std::fflush(stdout);
    return report.failed() ? 1 : 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "ral-verify: %s\n%s", error.what(), kUsage);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ral-verify: %s\n", error.what());
  }
  return 2;
}

}  // namespace

}  // namespace ral_verify

int main(int argc, char** argv) { return ral_verify::run(argc, argv); }
