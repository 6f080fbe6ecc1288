// KernelRouter: matching, reasons, manifests with bad entries, replacement while running, the policy.
#include <stdio.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "harness.h"
#include "json.h"

using namespace ral;
using harness::Fixture;

static Operand f32(int rank, bool contiguous = true, int64_t elements = 16) {
  return {RAL_FLOAT32, rank, contiguous, elements};
}
static std::string reason(const Fixture& f, const char* op, Operand operand) {
  return KernelRouter::get().route(op, *f.device, &operand, 1).reason;
}

TEST(reasons) {
  Fixture f;
  CHECK_EQ(reason(f, "aten::sort", f32(1)), "no manifest entry");
  CHECK_EQ(reason(f, "aten::add.Tensor", {RAL_INT64, 1, true, 4}), "dtype int64 not in supported_dtypes");
  CHECK_EQ(reason(f, "aten::add.Tensor", f32(5)), "rank 5 > max_shape_rank 4");
  CHECK_EQ(reason(f, "aten::relu", f32(0)), "rank 0 < min_shape_rank 1");
  CHECK_EQ(reason(f, "aten::add.Tensor", f32(2, false)), "non-contiguous");
  CHECK_EQ(reason(f, "aten::add.Tensor", f32(2, true, 2000000)), "2000000 elements > max_elements 1000000");
  CHECK_EQ(reason(f, "aten::add.Tensor", f32(2)), "");
  CHECK_EQ(reason(f, "aten::fill.Scalar", f32(9)), "rank 9 > max_shape_rank 8");
}

TEST(every_operand_is_checked) {
  Fixture f;
  const Operand mixed[2] = {f32(1), {RAL_FLOAT64, 1, true, 16}};
  const Route route = KernelRouter::get().route("aten::add.Tensor", *f.device, mixed, 2);
  CHECK(route.kernel == nullptr);
  CHECK_EQ(route.reason, "dtype float64 not in supported_dtypes");
  CHECK(KernelRouter::get().route("aten::add.Tensor", *f.device, nullptr, 0).kernel != nullptr);
}

TEST(cheapest_that_fits) {
  Fixture f;
  Operand operand = f32(1);
  CHECK_EQ(KernelRouter::get().route("aten::relu", *f.device, &operand, 1).kernel->symbol, "relu_fast");
  operand.contiguous = false;
  CHECK_EQ(KernelRouter::get().route("aten::relu", *f.device, &operand, 1).kernel->symbol, "relu_slow");
  operand.dtype = RAL_FLOAT64;  // the slow one fails on dtype, the fast one further on: the nearest miss is named
  CHECK_EQ(KernelRouter::get().route("aten::relu", *f.device, &operand, 1).reason, "non-contiguous");
}

TEST(entries_and_defaults) {
  Fixture f;
  KernelRouter& router = KernelRouter::get();
  CHECK(router.has_kernel("aten::relu", *f.device));
  CHECK(!router.has_kernel("aten::gelu", *f.device));
  const std::vector<std::string> ops = router.ops(*f.device);
  CHECK_EQ(ops.size(), 8u);
  CHECK(std::is_sorted(ops.begin(), ops.end()));
  const Operand operand = f32(1);
  const NativeKernel& k = *router.route("aten::fill.Scalar", *f.device, &operand, 1).kernel;
  CHECK_EQ(k.symbol, "fill");  // from the file's name
  CHECK_EQ(k.path, f.box.folder("alpha") + "/kernels/fill.cl");
  CHECK_EQ(k.cost, 1.0);
  CHECK_EQ(k.max_elements, 0);
  CHECK(k.handle != nullptr);
}

static std::string entry(const std::string& change) {
  // Members that `change` gives win over the defaults.
  std::string out = "{" + change;
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"op_name", "\"aten::gelu\""},
                                                        {"backend", "\"t\""},
                                                        {"supported_dtypes", "[\"float32\"]"},
                                                        {"min_shape_rank", "0"},
                                                        {"max_shape_rank", "8"},
                                                        {"requires_contiguous", "true"},
                                                        {"kernel_path", "\"k.cl\""}}) {
    if (change.find("\"" + name + "\"") != std::string::npos) continue;
    out += std::string(out.size() > 1 ? ", " : "") + "\"" + name + "\": " + text;
  }
  return out + "}";
}

TEST(bad_entries_are_named_and_left_out) {
  Fixture f;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {entry("\"op_name\": \"gelu\""), "kernels[0] gelu: op_name: \"gelu\" does not match"},
      {entry("\"op_name\": 3"), "kernels[0]: op_name: 3 is not of type string"},
      {entry("\"supported_dtypes\": [\"float33\"]"), "supported_dtypes[0]: \"float33\" is none of bool, uint8"},
      {entry("\"supported_dtypes\": []"), "supported_dtypes: fewer than 1 items"},
      {entry("\"supported_dtypes\": \"float32\""), "supported_dtypes: \"float32\" is not of type array"},
      {entry("\"supported_dtypes\": [\"bool\", \"bool\"]"), "appears twice"},
      {entry("\"min_shape_rank\": -1"), "min_shape_rank: -1 is less than 0"},
      {entry("\"max_shape_rank\": 2.5"), "max_shape_rank: 2.5 is not of type integer"},
      {entry("\"min_shape_rank\": 5, \"max_shape_rank\": 2"), "min_shape_rank 5 > max_shape_rank 2"},
      {entry("\"requires_contiguous\": \"yes\""), "requires_contiguous: \"yes\" is not of type boolean"},
      {entry("\"kernel_path\": \"../../etc/passwd\""), "leaves the manifest's folder"},
      {entry("\"kernel_path\": \"\""), "kernel_path: shorter than 1"},
      {entry("\"cost\": -2"), "cost: -2 is less than 0"},
      {entry("\"symbol\": \"absent\""), "not resolved, RAL_ERROR_COMPILE: no symbol absent"},
      {"{\"op_name\": \"aten::gelu\"}",
       "kernels[0] aten::gelu: member \"backend\" is missing; member \"supported_dtypes\" is missing"},
      {"17", "kernels[0]: 17 is not of type object"},
  };
  for (const auto& [bad, expected] : cases) {
    std::vector<std::string> problems;
    const std::string text = "{\"kernels\": [" + bad + ", " + entry("\"op_name\": \"aten::tanh\"") + "]}";
    CHECK(KernelRouter::get().load_manifest(*f.device, text, "/folder", &problems));
    CHECK_EQ(problems.size(), 1u);
    if (!problems.empty()) CHECK_HAS(problems[0], expected);
    CHECK_EQ(KernelRouter::get().ops(*f.device).size(), 1u);
    CHECK(KernelRouter::get().has_kernel("aten::tanh", *f.device));
  }
}

TEST(broken_text_leaves_all_as_it_was) {
  Fixture f;
  const uint64_t before = KernelRouter::get().generation();
  for (const char* text : {"", "{", "[]", "{}", "{\"kernels\": 3}", "{\"kernels\": [], \"manifest_version\": 2}",
                           "null", "{\"kernels\": [}"}) {
    std::vector<std::string> problems;
    CHECK(!KernelRouter::get().load_manifest(*f.device, text, "/folder", &problems));
    CHECK_EQ(problems.size(), 1u);
  }
  CHECK(KernelRouter::get().has_kernel("aten::relu", *f.device));
  CHECK_EQ(KernelRouter::get().generation(), before);
}

TEST(replaced_while_running) {
  Fixture f;
  const Operand operand = f32(1);
  const NativeKernel* old = KernelRouter::get().route("aten::relu", *f.device, &operand, 1).kernel;
  const uint64_t before = KernelRouter::get().generation();
  std::vector<std::string> problems;
  CHECK(KernelRouter::get().load_manifest(
      *f.device,
      "{\"kernels\": [" + entry("\"op_name\": \"aten::relu\", \"symbol\": \"relu_new\", \"x_note\": 1") + "]}", "/f",
      &problems));
  CHECK(problems.empty());
  CHECK(KernelRouter::get().generation() > before);
  CHECK_EQ(KernelRouter::get().route("aten::relu", *f.device, &operand, 1).kernel->symbol, "relu_new");
  CHECK_EQ(KernelRouter::get().route("aten::relu", *f.device, &operand, 1).kernel->path, "/f/k.cl");
  CHECK(!KernelRouter::get().has_kernel("aten::add.Tensor", *f.device));
  CHECK_EQ(old->symbol, "relu_fast");  // callers' pointers stay good
}

static bool reloaded(uint64_t before) {
  return harness::eventually([&] { return KernelRouter::get().generation() != before; });
}

// The plugin's reason, once it says that.
static std::string reason_with(const std::string& words) {
  std::string reason;
  harness::eventually([&] {
    reason = DeviceManager::get().plugins().at(0).reason;
    return reason.find(words) != std::string::npos;
  });
  return reason;
}

TEST(a_new_manifest_file_is_taken_while_ops_run) {
  Fixture f;
  const std::string path = f.box.folder("alpha") + "/kernel_manifest.json";
  std::atomic<bool> stop{false};
  std::atomic<long> calls{0};
  std::thread worker([&] {
    while (!stop.load()) {
      const Operand operand = f32(1);
      const Route route = KernelRouter::get().route("aten::relu", *f.device, &operand, 1);
      if (!route.kernel || route.kernel->symbol.empty()) std::abort();
      calls.fetch_add(1);
    }
  });
  for (int round = 0; round < 5; ++round) {
    const uint64_t before = KernelRouter::get().generation();
    const std::string symbol = "relu_" + std::to_string(round);
    // As careful writers do it: aside, then moved into place.
    harness::write(path + ".new",
                   "{\"kernels\": [" + entry("\"op_name\": \"aten::relu\", \"symbol\": \"" + symbol + "\"") + "]}");
    CHECK_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
    CHECK(reloaded(before));
    const Operand operand = f32(1);
    CHECK_EQ(KernelRouter::get().route("aten::relu", *f.device, &operand, 1).kernel->symbol, symbol);
  }
  stop.store(true);
  worker.join();
  CHECK(calls.load() > 0);
}

TEST(a_broken_manifest_file_keeps_the_old_and_is_reported) {
  Fixture f;
  const std::string path = f.box.folder("alpha") + "/kernel_manifest.json";
  const uint64_t before = KernelRouter::get().generation();
  harness::write(path, "{\"kernels\": [");
  const std::string not_taken = "new kernel_manifest.json not taken, the earlier one stays: not JSON";
  CHECK_HAS(reason_with(not_taken), not_taken);
  CHECK_EQ(KernelRouter::get().generation(), before);
  CHECK(KernelRouter::get().has_kernel("aten::relu", *f.device));
  // One that others could write is as bad as a broken one.
  chmod(path.c_str(), 0666);
  harness::write(path, "{\"kernels\": []}", 0666);
  const std::string writable = "is writable by others (mode 0666)";
  CHECK_HAS(reason_with(writable), writable);
  CHECK_EQ(KernelRouter::get().generation(), before);
}

TEST(bad_entries_show_in_the_report) {
  harness::Sandbox box;
  box.install("alpha", "testplugin", "{\"kernels\": [" + entry("\"cost\": -2") + "]}");
  CHECK_EQ(DeviceManager::get().count(), 1);
  const PluginReport r = DeviceManager::get().plugins().at(0);
  CHECK(r.status == PluginStatus::Ready);
  CHECK_HAS(r.reason, "kernels[0] aten::gelu: cost: -2 is less than 0");
}

TEST(policy) {
  KernelRouter& router = KernelRouter::get();
  CHECK_EQ(router.policy().text(), "native,jit,reference,cpu");
  CHECK(!router.policy().strict);
  const uint64_t before = router.generation();
  router.set_policy("cpu, native", true);
  CHECK_EQ(router.policy().text(), "cpu,native");
  CHECK(router.policy().strict && router.policy().allows(Tier::Cpu) && !router.policy().allows(Tier::Jit));
  CHECK(router.generation() > before);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"\"gpu\" is no tier", "native, jit, reference, cpu"}),
               router.set_policy("native,gpu", false));
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"\"cpu\" appears twice"}), router.set_policy("cpu,cpu", false));
  CHECK_EQ(router.policy().text(), "cpu,native");
  router.set_policy("", false);
  CHECK_EQ(router.policy().text(), "native,jit,reference,cpu");
}

TEST(policy_from_the_environment) {
  setenv("RAL_FALLBACK", "native", 1);
  setenv("RAL_FALLBACK_STRICT", "1", 1);
  CHECK_EQ(KernelRouter::get().policy().text(), "native");
  CHECK(KernelRouter::get().policy().strict);
}

TEST(bad_policy_in_the_environment_is_ignored) {
  setenv("RAL_LOG", "error", 1);
  setenv("RAL_FALLBACK", "fast", 1);
  CHECK_EQ(KernelRouter::get().policy().text(), "native,jit,reference,cpu");
}

TEST(shipped_schema_is_json) {
  json::Value v;
  std::string problem;
  CHECK(json::parse(manifest_schema(), &v, &problem));
  CHECK_EQ(problem, "");
  CHECK_EQ(v.find("title")->string, "kernel_manifest.json");
}

int main(int argc, char** argv) { return check::main(argc, argv); }
