// Schema facts of each operator, with the table that CMake generates from the PyTorch being built against.
#include "op_info.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "ral/kernel_router.h"
#include "ral/trace.h"

namespace torch_fl {
namespace {

struct Row {
  const char* name;
  const char* functional;
  bool one_device;
};

constexpr Row kRows[] = {
#include "generated_ops.inc"
};

const Row* find_row(const std::string& name) {
  const auto* end = std::end(kRows);
  const auto* row = std::lower_bound(std::begin(kRows), end, name, [](const Row& a, const std::string& b) {
    return std::strcmp(a.name, b.c_str()) < 0;
  });
  return row != end && name == row->name ? row : nullptr;
}

// Operators that take CPU tensors beside device tensors by definition, and results that stay on the host.
const std::unordered_set<std::string>& mixed_operators() {
  static const std::unordered_set<std::string> names{"index.Tensor",
                                                     "index.Tensor_out",
                                                     "index_put",
                                                     "index_put_",
                                                     "index_put.out",
                                                     "_index_put_impl_",
                                                     "_index_put_impl",
                                                     "_index_put_impl.out",
                                                     "_unsafe_index.Tensor",
                                                     "_unsafe_index_put",
                                                     "_pack_padded_sequence",
                                                     "_pack_padded_sequence.out",
                                                     "_ctc_loss.Tensor",
                                                     "_ctc_loss_backward.Tensor",
                                                     "nested_from_padded",
                                                     "masked_select",
                                                     "masked_select.out"};
  return names;
}

// Does "base.overload" take the arguments (out= ones aside) and give as many results as this schema? PyTorch's groups
// of one operator's forms hold some that do not.
bool same_form(const c10::FunctionSchema& schema, const std::string& name) {
  const auto dot = name.find('.');
  const auto overload = dot == std::string::npos ? std::string() : name.substr(dot + 1);
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + name.substr(0, dot), overload});
  const auto inputs = [](const c10::FunctionSchema& s) {
    return std::count_if(s.arguments().begin(), s.arguments().end(), [](const auto& a) { return !a.is_out(); });
  };
  return op && op->schema().returns().size() == schema.returns().size() && inputs(op->schema()) == inputs(schema);
}

std::string strip_aten(const std::string& name) { return name.rfind("aten::", 0) == 0 ? name.substr(6) : name; }

}  // namespace

OpInfo::OpInfo(const c10::OperatorHandle& op) : handle(op) {
  const auto& schema = op.schema();
  const auto& qualified = schema.operator_name();
  base_name = strip_aten(qualified.name);
  overload_name = qualified.overload_name.empty() ? base_name : base_name + "." + qualified.overload_name;
  functional_name = "aten::" + overload_name;
  if (const auto* row = find_row(overload_name)) {
    one_device = row->one_device;
    if (row->functional[0] && same_form(schema, row->functional))
      functional_name = std::string("aten::") + row->functional;
  } else {
    one_device = false;
  }
  cpu_operands = mixed_operators().count(overload_name) != 0;

  for (const auto& argument : schema.arguments()) {
    ArgInfo info;
    info.written = argument.alias_info() && argument.alias_info()->isWrite();
    info.quiet = base_name == "native_batch_norm" && argument.name().rfind("running_", 0) == 0;
    info.out = info.written && argument.is_out();
    writes |= info.written;
    auto type = argument.real_type();
    if (type->kind() == c10::TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType();
    info.dtype = type->kind() == c10::TypeKind::ScalarTypeType;
    info.device = argument.name() == "device";
    info.generator = type->kind() == c10::TypeKind::GeneratorType;
    args.push_back(info);
  }
  native_possible = true;
  for (const auto& ret : schema.returns()) {
    ReturnInfo info;
    if (const auto* alias = ret.alias_info()) {
      if (alias->isWrite()) {
        for (size_t i = 0; i < args.size(); ++i) {
          const auto* other = schema.arguments()[i].alias_info();
          if (other && *other == *alias) info.alias_arg = static_cast<int>(i);
        }
      } else {
        returns_view = true;
      }
    }
    if (ret.type()->kind() != c10::TypeKind::TensorType) native_possible = false;
    returns.push_back(info);
  }
  const bool has_generator = std::any_of(args.begin(), args.end(), [](const ArgInfo& a) { return a.generator; });
  random_inside = !has_generator && op.hasTag(at::Tag::nondeterministic_seeded);
  if (base_name == "_pack_padded_sequence" && returns.size() > 1) returns[1].keep_on_cpu = true;
  asks_for_grad = base_name == "_sparse_mm_reduce_impl";
  auto& dispatcher = c10::Dispatcher::singleton();
  if (base_name == "convolution_overrideable") {
    host_target = dispatcher.findSchemaOrThrow("aten::convolution", "");
    functional_name = "aten::convolution";
    base_name = overload_name = "convolution";
  } else if (base_name == "convolution_backward_overrideable") {
    host_target = dispatcher.findSchemaOrThrow("aten::convolution_backward", "");
    functional_name = "aten::convolution_backward";
    base_name = overload_name = "convolution_backward";
    native_possible = false;
  }
}

bool OpInfo::has_native(ral::Device& device) {
  if (!native_possible) return false;
  const uint64_t generation = ral::KernelRouter::get().generation() + 1;
  auto& known = native_known_[device.index()];
  const auto seen = known.load(std::memory_order_relaxed);
  if (C10_LIKELY((seen >> 1) == generation)) return seen & 1;
  const bool has = ral::KernelRouter::get().has_kernel(functional_name, device);
  known.store(generation << 1 | static_cast<uint64_t>(has), std::memory_order_relaxed);
  return has;
}

static uint32_t interned(std::atomic<uint32_t>& known, const std::string& text) {
  auto id = known.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(id == 0)) known.store(id = ral::trace::intern(text), std::memory_order_relaxed);
  return id;
}
uint32_t OpInfo::trace_name() { return interned(trace_name_, base_name); }
uint32_t OpInfo::trace_kernel() { return interned(trace_kernel_, overload_name); }

OpInfo& op_info(const c10::OperatorHandle& op) {
  // Keyed by the schema's address, which an operator keeps for its life.
  struct Slot {
    const void* key;
    OpInfo* info;
  };
  thread_local Slot slots[512] = {};
  const void* key = &op.schema();
  auto& slot = slots[(reinterpret_cast<uintptr_t>(key) >> 6) & 511];
  if (C10_LIKELY(slot.key == key)) return *slot.info;

  static std::mutex mutex;
  static auto& all = *new std::unordered_map<const void*, OpInfo*>;
  std::lock_guard<std::mutex> lock(mutex);
  auto& info = all[key];
  if (!info) info = new OpInfo(op);
  slot = {key, info};
  return *info;
}

bool is_view_name(const char* base_name) {
  static const auto& names = *[] {
    auto* set = new std::unordered_set<std::string>{"detach", "alias"};
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      if (name.name.rfind("aten::", 0) != 0) continue;
      const auto op = dispatcher.findSchema(name);
      if (!op || !op->hasSchema()) continue;
      for (const auto& ret : op->schema().returns())
        if (ret.alias_info() && !ret.alias_info()->isWrite()) set->insert(name.name.substr(6));
    }
    // Views only sometimes: a copy otherwise.
    for (const char* maybe : {"reshape", "contiguous", "to", "flatten", "ravel"}) set->erase(maybe);
    return set;
  }();
  return names.count(std::strncmp(base_name, "aten::", 6) == 0 ? base_name + 6 : base_name) != 0;
}

}  // namespace torch_fl
