// ral-verify: the conformance suite for a plugin folder. `ralctl verify` is its front.
//
// Events on stdout, see events.h. Exit status: 0 all was judged, whatever came out; 2 wrong usage or a plugin that does
// not load. After a crash, `--from` goes on with the part behind the one that crashed.
#include <cstdio>
#include <cstdlib>

#include "arguments.h"
#include "device_checks.h"
#include "events.h"
#include "kernels.h"
#include "plugin_folder.h"
#include "ral/kernel_router.h"

namespace ral_verify {

namespace {

constexpr const char* kUsage =
    "usage: ral-verify PATH [--ops NAME,...] [--dtypes NAME,...] [--no-speed] [--from N]\n"
    "  PATH      a folder with lib<vendor>_plugin.so and kernel_manifest.json\n"
    "  --ops     only these operators: add, add.Tensor or aten::add.Tensor\n"
    "  --dtypes  only these types: float32, int64, ...\n"
    "  --no-speed  measure no times\n"
    "  --from N  leave out the parts before the N-th; their numbers are in the events\n";

struct Options {
  std::string path;
  Choice choice;
  int from = 0;
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw UsageError(word + " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--ops") {
      options.choice.ops = words_of(value(), ",");
    } else if (word == "--dtypes") {
      for (const std::string& name : words_of(value(), ",")) {
        ral_dtype dtype;
        if (!ral::dtype_from_name(name, &dtype)) throw UsageError("\"" + name + "\" is no data type; one is float32");
        options.choice.dtypes.push_back(dtype);
      }
    } else if (word == "--no-speed") {
      options.choice.speed = false;
    } else if (word == "--from") {
      options.from = std::atoi(value().c_str());
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

// Runs the parts from the `from`-th on: each device's memory, its streams, its kernels.
class Parts {
 public:
  explicit Parts(int from) : from_(from) {}
  template <class F>
  void run(const std::string& device, const std::string& name, const std::string& symbol, F&& judge) {
    const int number = next_++;
    if (number < from_) return;
    say_part(number, device, name, symbol);
    judge();
  }

 private:
  int from_, next_ = 0;
};

void verify(const Options& options) {
  const Loaded loaded = load_folder(options.path);
  check_ops(options.choice, loaded.devices);
  say_plugin(loaded.report.name, loaded.report.version, loaded.report.path, problems_of(loaded.report.reason));
  Parts parts(options.from);
  for (ral::Device* device : loaded.devices) {
    const std::string id = "ral:" + std::to_string(device->index());
    say_device(id, device->info().name);
    parts.run(id, "memory", "", [&] { check_memory(*device, options.choice.speed); });
    parts.run(id, "streams", "", [&] { check_streams(*device); });
    for (const ral::NativeKernel* kernel : kernels_of(*device, options.choice))
      parts.run(id, kernel->op_name, kernel->symbol, [&] { judge_kernel(*device, *kernel, options.choice); });
  }
  say_done();
}

int run(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    open_events();
    verify(options);
    return 0;
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
