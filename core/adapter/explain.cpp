// torch.ral.explain: see explain.h.
#include "explain.h"

namespace torch_fl {
namespace {
thread_local bool tls_explaining = false;
thread_local Explanation tls_explanation;
}  // namespace

bool explaining() noexcept { return tls_explaining; }
void set_explaining(bool on) noexcept { tls_explaining = on; }

void explain_and_leave(Call& call, Plan& plan) {
  const auto tier = plan.choose();
  tls_explanation.op = "aten::" + call.info.overload_name;
  tls_explanation.tier = ral::tier_name(tier);
  tls_explanation.kernel = tier == ral::Tier::Native ? plan.kernel()->symbol
                           : tier == ral::Tier::Cpu  ? call.info.overload_name
                                                     : "";
  tls_explanation.reason_json = plan.reason_json(tier);
  tls_explanation.device = "ral:" + std::to_string(call.device->index());
  throw std::runtime_error("ral: explained");
}

Explanation take_explanation() { return std::move(tls_explanation); }

}  // namespace torch_fl
