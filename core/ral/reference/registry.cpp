// The operators of all families by name, and the C entry.
#include <algorithm>
#include <cstring>
#include <map>

#include "internal.h"

namespace ral::reference {
namespace {

const std::map<std::string, Entry>& registry() {
  static const auto* all = [] {
    auto* map = new std::map<std::string, Entry>;
    for (const auto& family :
         {arithmetic_ops, math_ops,        activation_ops,   reduction_ops, extremum_ops, scan_ops, softmax_ops,
          norm_ops,       loss_ops,        matmul_ops,       index_ops,     shape_ops,    sort_ops, convolution_ops,
          pooling_ops,    interpolate_ops, grid_sampler_ops, selection_ops, factory_ops,  fft_ops})
      for (const Entry& entry : family()) map->emplace(entry.name, entry);
    return map;
  }();
  return *all;
}

}  // namespace

Kernel find(const std::string& op) noexcept {
  const auto place = registry().find(op);
  return place == registry().end() ? nullptr : place->second.kernel;
}

Sizing find_sizing(const std::string& op) noexcept {
  const auto place = registry().find(op);
  return place == registry().end() ? nullptr : place->second.sizing;
}

std::vector<std::string> ops() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : registry()) names.push_back(name);
  return names;
}

}  // namespace ral::reference

ral_status ral_reference_run(const char* op, const ral_value* args, uint32_t arg_count, const ral_value* outs,
                             uint32_t out_count, char* why, uint64_t why_bytes) {
  std::string text = std::string("no reference kernel for ") + op;
  const ral::reference::Kernel kernel = ral::reference::find(op);
  const ral_status status = kernel ? kernel(args, arg_count, outs, out_count, &text) : RAL_ERROR_UNSUPPORTED;
  if (why && why_bytes > 0) {
    if (status == RAL_SUCCESS) text.clear();
    const size_t n = std::min<size_t>(text.size(), why_bytes - 1);
    std::memcpy(why, text.data(), n);
    why[n] = '\0';
  }
  return status;
}

const char* ral_reference_ops(void) {
  static const std::string* text = [] {
    auto* all = new std::string;
    for (const std::string& name : ral::reference::ops()) *all += name + "\n";
    return all;
  }();
  return text->c_str();
}
