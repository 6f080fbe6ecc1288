// Which native kernel fits a call, and the policy of tiers.
#include "ral/kernel_router.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <unordered_map>

#include "manifest.h"
#include "pool_internal.h"
#include "ral/log.h"
#include "router_internal.h"

namespace ral {

namespace {

using Table = std::map<std::string, std::vector<const NativeKernel*>>;  // by op, cheapest first

struct State {
  mutable std::shared_mutex mutex;
  Table tables[kMaxDevices];
  std::unordered_map<ral_kernel, const NativeKernel*> by_handle;
  std::vector<std::unique_ptr<const NativeKernel>> all;  // of every manifest so far: callers keep pointers
  Policy policy;
  std::atomic<uint64_t> generation{1};
};

Policy parse_policy(const std::string& order, bool strict) {
  Policy policy;
  policy.strict = strict;
  if (order.empty()) return policy;
  policy.order.clear();
  std::istringstream words(order);
  for (std::string word; std::getline(words, word, ',');) {
    word.erase(0, word.find_first_not_of(" \t"));
    word.erase(word.find_last_not_of(" \t") + 1);
    Tier tier = Tier::None;
    for (Tier known : {Tier::Native, Tier::Jit, Tier::Reference, Tier::Cpu})
      if (word == tier_name(known)) tier = known;
    if (tier == Tier::None)
      throw Error(RAL_ERROR_INVALID_ARGUMENT, "fallback policy \"" + order + "\": \"" + word +
                                                  "\" is no tier; the tiers are native, jit, reference, cpu");
    if (policy.allows(tier))
      throw Error(RAL_ERROR_INVALID_ARGUMENT, "fallback policy \"" + order + "\": \"" + word + "\" appears twice");
    policy.order.push_back(tier);
  }
  return policy;
}

State& state() {
  static State* const one = [] {
    auto* fresh = new State;
    const char* order = std::getenv("RAL_FALLBACK");
    const char* strict = std::getenv("RAL_FALLBACK_STRICT");
    const bool is_strict = strict && *strict && std::string(strict) != "0";
    try {
      fresh->policy = parse_policy(order ? order : "", is_strict);
    } catch (const Error& error) {
      log(RAL_LOG_WARNING, std::string("RAL_FALLBACK is ignored: ") + error.what());
      fresh->policy.strict = is_strict;
    }
    return fresh;
  }();
  return *one;
}

// How far a kernel got against a call: later checks count more, so that the message names the nearest miss.
struct Miss {
  int stage = 0;
  std::string reason = "no manifest entry";
};

Miss misfit(const NativeKernel& kernel, int device_rank, const Operand* operands, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (operands[i].dtype < 0 || operands[i].dtype >= RAL_DTYPE_COUNT || !(kernel.dtype_mask >> operands[i].dtype & 1))
      return {1, std::string("dtype ") + dtype_name(operands[i].dtype) + " not in supported_dtypes"};
  const int most = std::min(kernel.max_rank, device_rank);
  for (size_t i = 0; i < count; ++i) {
    if (operands[i].rank > most)
      return {2, "rank " + std::to_string(operands[i].rank) + " > max_shape_rank " + std::to_string(most)};
    if (operands[i].rank < kernel.min_rank)
      return {2, "rank " + std::to_string(operands[i].rank) + " < min_shape_rank " + std::to_string(kernel.min_rank)};
  }
  for (size_t i = 0; kernel.requires_contiguous && i < count; ++i)
    if (!operands[i].contiguous) return {3, "non-contiguous"};
  for (size_t i = 0; kernel.max_elements > 0 && i < count; ++i)
    if (operands[i].elements > kernel.max_elements)
      return {4,
              std::to_string(operands[i].elements) + " elements > max_elements " + std::to_string(kernel.max_elements)};
  return {5, ""};
}

}  // namespace

bool Policy::allows(Tier tier) const noexcept { return std::find(order.begin(), order.end(), tier) != order.end(); }

std::string Policy::text() const {
  std::string out;
  for (Tier tier : order) out += (out.empty() ? "" : ",") + std::string(tier_name(tier));
  return out;
}

KernelRouter& KernelRouter::get() {
  static KernelRouter* const router = new KernelRouter;
  return *router;
}

Route KernelRouter::route(const std::string& op, Device& device, const Operand* operands, size_t count) {
  State& s = state();
  std::shared_lock<std::shared_mutex> guard(s.mutex);
  const Table& table = s.tables[device.index()];
  const auto found = table.find(op);
  Miss nearest;
  if (found == table.end()) return {nullptr, nearest.reason};
  const int device_rank = device.info().max_rank ? static_cast<int>(device.info().max_rank) : 8;
  for (const NativeKernel* kernel : found->second) {
    Miss miss = misfit(*kernel, device_rank, operands, count);
    if (miss.reason.empty()) return {kernel, ""};
    if (miss.stage > nearest.stage) nearest = std::move(miss);
  }
  return {nullptr, nearest.reason};
}

bool KernelRouter::has_kernel(const std::string& op, Device& device) {
  State& s = state();
  std::shared_lock<std::shared_mutex> guard(s.mutex);
  return s.tables[device.index()].count(op) != 0;
}

std::vector<std::string> KernelRouter::ops(Device& device) {
  State& s = state();
  std::shared_lock<std::shared_mutex> guard(s.mutex);
  std::vector<std::string> names;
  for (const auto& item : s.tables[device.index()]) names.push_back(item.first);
  return names;
}

Policy KernelRouter::policy() const {
  State& s = state();
  std::shared_lock<std::shared_mutex> guard(s.mutex);
  return s.policy;
}

void KernelRouter::set_policy(const std::string& order, bool strict) {
  Policy policy = parse_policy(order, strict);
  State& s = state();
  std::unique_lock<std::shared_mutex> guard(s.mutex);
  s.policy = std::move(policy);
  s.generation.fetch_add(1);
}

uint64_t KernelRouter::generation() const noexcept { return state().generation.load(std::memory_order_acquire); }

bool KernelRouter::load_manifest(Device& device, const std::string& json, const std::string& folder,
                                 std::vector<std::string>* problems) {
  std::vector<std::string> own;
  std::vector<std::string>& said = problems ? *problems : own;
  std::vector<ManifestEntry> entries;
  if (!read_manifest(json, folder, &entries, &said)) return false;

  Table table;
  std::vector<std::unique_ptr<NativeKernel>> kernels_read;
  const ral_kernel_table* kernels = device.plugin().kernel;
  if (!kernels && !entries.empty())
    said.push_back(std::to_string(entries.size()) + " entries left out: the plugin has no kernel table");
  for (const ManifestEntry& entry : entries) {
    if (!kernels) break;
    ral_kernel handle = nullptr;
    const ral_status status = kernels->resolve(device.plugin_index(), entry.op_name.c_str(), entry.path.c_str(),
                                               entry.symbol.c_str(), entry.dialect.c_str(), &handle);
    if (status != RAL_SUCCESS) {
      const std::string detail = device.last_error();
      said.push_back(entry.op_name + " (" + entry.symbol + " in " + entry.path + "): not resolved, " +
                     code_name(status) + (detail.empty() ? "" : ": " + detail));
      continue;
    }
    kernels_read.push_back(std::make_unique<NativeKernel>());
    NativeKernel* kernel = kernels_read.back().get();
    kernel->op_name = entry.op_name;
    kernel->symbol = entry.symbol;
    kernel->path = entry.path;
    kernel->cost = entry.cost;
    kernel->handle = handle;
    kernel->dtype_mask = entry.dtype_mask;
    kernel->min_rank = entry.min_rank;
    kernel->max_rank = entry.max_rank;
    kernel->requires_contiguous = entry.requires_contiguous;
    kernel->max_elements = entry.max_elements;
    table[entry.op_name].push_back(kernel);
  }
  for (auto& item : table)
    std::stable_sort(item.second.begin(), item.second.end(),
                     [](const NativeKernel* a, const NativeKernel* b) { return a->cost < b->cost; });

  State& s = state();
  std::unique_lock<std::shared_mutex> guard(s.mutex);
  for (const auto& item : table)
    for (const NativeKernel* kernel : item.second) s.by_handle[kernel->handle] = kernel;
  for (std::unique_ptr<NativeKernel>& kernel : kernels_read) s.all.push_back(std::move(kernel));
  s.tables[device.index()].swap(table);
  s.generation.fetch_add(1);
  return true;
}

std::string kernel_op_name(ral_kernel kernel) {
  if (!kernel) return "";
  State& s = state();
  std::shared_lock<std::shared_mutex> guard(s.mutex);
  const auto found = s.by_handle.find(kernel);
  return found == s.by_handle.end() ? "" : found->second->op_name;
}

}  // namespace ral
