// Choice of the tier. On devices that share the host's memory and cores the CPU tier is a candidate too,
// and measurements decide; elsewhere the policy's order does.
#include "plan.h"

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "ral/trace.h"

namespace torch_fl {
namespace {

constexpr int kCpuSamples = 5;  // the least of them counts; the first one is cold
constexpr int kNativeSamples = 5;
// Passing between the host's and the driver's threads costs time that a measurement of one call does not see.
constexpr double kMargin = 0.75;

std::string time_text(double ns) {
  char text[32];
  if (ns < 1e6) {
    std::snprintf(text, sizeof text, "%.3g µs", ns / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.3g ms", ns / 1e6);
  }
  return text;
}

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

Plan::Plan(OpInfo& info, ral::Device& device, const Signature& signature)
    : info_(info),
      device_(device),
      policy_(ral::KernelRouter::get().policy()),
      generation_(ral::KernelRouter::get().generation()) {
  const bool may_native = policy_.allows(ral::Tier::Native), may_cpu = policy_.allows(ral::Tier::Cpu);
  if (!may_native) {
    no_native_ = "switched off by RAL_FALLBACK=" + policy_.text();
  } else if (!info.native_possible) {
    no_native_ = "no manifest entry";
  } else if (!signature.all_types_known) {
    no_native_ = "dtype outside the plugin ABI";
  } else {
    auto route = ral::KernelRouter::get().route(info.functional_name, device, signature.operands.data(),
                                                signature.operands.size());
    kernel_ = route.kernel;
    no_native_ = route.reason;
  }
  if (policy_.allows(ral::Tier::Reference)) reference_ = ral::reference::find(info.functional_name);
  if (!reference_) {
    no_reference_ = "no reference kernel";
  } else if (may_cpu && !(policy_.strict && comes_before(ral::Tier::Reference, ral::Tier::Cpu))) {
    no_reference_ = "plain C++: PyTorch's kernel on the same host is faster";
  }
  if (!kernel_) {
    decide(on_host(), "");
    return;
  }
  const bool native_first = !may_cpu || comes_before(ral::Tier::Native, ral::Tier::Cpu);
  if (!may_cpu || (policy_.strict && native_first)) {
    decide(kNative, "first in RAL_FALLBACK");
  } else if (policy_.strict) {
    no_native_ = "after cpu in RAL_FALLBACK=" + policy_.text();
    decide(on_host(), "first in RAL_FALLBACK");
  } else if (!(device.host_visible() && device.is_cpu())) {
    decide(native_first ? kNative : kCpu, native_first ? "first in RAL_FALLBACK" : "before native in RAL_FALLBACK");
  } else {
    no_native_ = "not measured yet";
    why_ = "measuring: the host first";
    state_.store(kProbeCpu, std::memory_order_release);
  }
}

bool Plan::comes_before(ral::Tier a, ral::Tier b) const noexcept {
  const auto& order = policy_.order;
  return std::find(order.begin(), order.end(), a) < std::find(order.begin(), order.end(), b);
}

Plan::State Plan::on_host() const noexcept {
  const bool may_reference = reference_ && !reference_refused_.load(std::memory_order_relaxed);
  const bool may_cpu = policy_.allows(ral::Tier::Cpu);
  if (may_reference && (!may_cpu || (policy_.strict && comes_before(ral::Tier::Reference, ral::Tier::Cpu))))
    return kReference;
  return may_cpu ? kCpu : kNone;
}

ral::Tier Plan::choose() noexcept {
  switch (state_.load(std::memory_order_acquire)) {
    case kNative:
    case kProbeNative: return ral::Tier::Native;
    case kCpu:
    case kProbeCpu:
    case kPreparing: return ral::Tier::Cpu;
    case kReference: return ral::Tier::Reference;
    default: return ral::Tier::None;
  }
}

void Plan::decide(State state, const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    why_ = why;
  }
  for (auto& id : reason_ids_) id.store(0, std::memory_order_relaxed);
  state_.store(state, std::memory_order_release);
}

void Plan::refuse_native(const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    no_native_ = why;
  }
  decide(on_host(), "");
}

void Plan::refuse_reference(const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    no_reference_ = why;
  }
  reference_refused_.store(true, std::memory_order_relaxed);
  decide(on_host(), "");
}

void Plan::measured(ral::Tier tier, int64_t ns) {
  const int state = state_.load(std::memory_order_acquire);
  auto keep_least = [ns](std::atomic<int64_t>& least) {
    auto known = least.load(std::memory_order_relaxed);
    while (ns < known && !least.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
    }
  };
  if (tier == ral::Tier::Cpu) {
    keep_least(cpu_ns_);
    if (cpu_samples_.fetch_add(1, std::memory_order_relaxed) + 1 < kCpuSamples || state != kProbeCpu) return;
    const double launch = device_.launch_cost() * 1e9;
    const double cpu = static_cast<double>(cpu_ns_.load(std::memory_order_relaxed));
    if (cpu <= launch) {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        no_native_ = "slower: a launch alone takes " + time_text(launch);
      }
      decide(kCpu, "measured " + time_text(cpu) + " vs " + time_text(launch) + " for a launch");
    } else {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        no_native_ = "compiling (background)";
      }
      decide(kPreparing, "until the native kernel is built");
    }
  } else if (tier == ral::Tier::Native && state == kProbeNative) {
    if (native_samples_.load(std::memory_order_relaxed) > 0) keep_least(native_ns_);
    if (native_samples_.fetch_add(1, std::memory_order_relaxed) + 1 < kNativeSamples) return;
    const double native = static_cast<double>(native_ns_.load()), cpu = static_cast<double>(cpu_ns_.load());
    const bool native_wins = native < kMargin * cpu;
    const auto text =
        "measured " + time_text(native_wins ? native : cpu) + " vs " + time_text(native_wins ? cpu : native);
    if (!native_wins) {
      std::lock_guard<std::mutex> lock(mutex_);
      no_native_ = (native < cpu ? "not clearly faster: " : "slower: ") + time_text(native);
    }
    decide(native_wins ? kNative : kCpu, text);
  }
}

bool Plan::wants_preparation() noexcept {
  return state_.load(std::memory_order_acquire) == kPreparing && !asked_.exchange(true);
}

void Plan::prepared(ral_status status, const std::string& why) {
  if (status == RAL_SUCCESS) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      no_native_ = "not measured yet";
    }
    decide(kProbeNative, "measuring: the native kernel");
  } else {
    refuse_native(why);
  }
}

std::string Plan::reason_json(ral::Tier ran) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string out = "{";
  auto add = [&](const char* key, const std::string& text) {
    if (out.size() > 1) out += ", ";
    out += json_string(key) + ": " + json_string(text);
  };
  for (const auto tier : policy_.order) {
    if (tier == ran) break;
    if (tier == ral::Tier::Native) add("native", no_native_.empty() ? "not measured yet" : no_native_);
    if (tier == ral::Tier::Jit) add("jit", "not in this version");
    if (tier == ral::Tier::Reference) add("reference", no_reference_);
    if (tier == ral::Tier::Cpu) add("cpu", "slower here");
  }
  if (!why_.empty()) {
    add("ran", why_);
  } else if (ran == ral::Tier::Cpu) {
    add("ran", device_.host_visible() ? "PyTorch's CPU kernel, in place" : "PyTorch's CPU kernel, with copies");
  } else if (ran == ral::Tier::Reference) {
    add("ran", "libral's C++ kernel");
  } else {
    add("ran", "first in RAL_FALLBACK");
  }
  return out + "}";
}

uint32_t Plan::reason_id(ral::Tier ran) {
  auto& known = reason_ids_[static_cast<int>(ran)];
  auto id = known.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(id == 0)) {
    id = ral::trace::intern(reason_json(ran));
    known.store(id, std::memory_order_relaxed);
  }
  return id;
}

std::string Plan::refusal() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string out;
  for (const auto tier : policy_.order) {
    if (!out.empty()) out += "; ";
    out += ral::tier_name(tier);
    out += tier == ral::Tier::Native      ? ": " + no_native_
           : tier == ral::Tier::Jit       ? ": not in this version"
           : tier == ral::Tier::Reference ? ": " + no_reference_
                                          : ": no kernel";
  }
  return out;
}

Plan& plan_for(OpInfo& info, ral::Device& device, const Signature& signature) {
  struct Slot {
    uint64_t hash;
    Plan* plan;
  };
  thread_local Slot slots[1024] = {};
  // splitmix64's finaliser over operator, device and signature; equal hashes are taken as equal calls.
  uint64_t hash = signature.hash ^ (reinterpret_cast<uintptr_t>(&info) * 0x9e3779b97f4a7c15ull) ^
                  (static_cast<uint64_t>(device.index()) << 56);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
  hash ^= hash >> 27;
  const auto generation = ral::KernelRouter::get().generation();
  auto& slot = slots[hash & 1023];
  if (C10_LIKELY(slot.hash == hash && slot.plan && slot.plan->generation() == generation)) return *slot.plan;

  static std::mutex mutex;
  static auto& all = *new std::unordered_map<uint64_t, Plan*>;
  std::lock_guard<std::mutex> lock(mutex);
  auto& plan = all[hash];
  // A plan of an older generation may be in use by another thread: it is left, not freed.
  if (!plan || plan->generation() != generation) plan = new Plan(info, device, signature);
  slot = {hash, plan};
  return *plan;
}

}  // namespace torch_fl
