// The reference tier: libral's own C++ kernels over the device's bytes (or copies of them), in stream order.
#include "ral/reference.h"

#include "host_record.h"
#include "values.h"

namespace torch_fl {

KernelOutcome run_reference(Call& call, Plan& plan, uint32_t reason, std::string* why, std::exception_ptr* error) {
  auto& device = *call.device;
  Outputs outputs;
  if (const auto stop = outputs.prepare(call, why, error)) return *stop;
  return guarded([&]() -> KernelOutcome {
    Values args(device, DataForm::Host), outs(device, DataForm::Host);
    if (!pack(call, outputs, &args, &outs)) {
      *why = "an argument has no form in the plugin ABI";
      return KernelOutcome::PassedOn;
    }
    const int64_t begin = ral::trace::now();
    const auto status = plan.reference()(args.data(), args.size(), outs.data(), outs.size(), why);
    if (status != RAL_SUCCESS) {
      if (why->empty()) *why = ral::code_name(status);
      return KernelOutcome::PassedOn;
    }
    const int64_t end = ral::trace::now();
    args.write_back();  // what is both argument and output is right in outs
    outs.write_back();
    if (C10_UNLIKELY(ral::trace::enabled())) {
      HostRun run{.tier = RAL_TIER_REFERENCE, .begin = begin, .end = end, .reason = reason};
      run.kernel = ral::trace::intern(call.info.functional_name);
      run.shapes = shapes_id(&call.arg(0), call.info.args.size());
      run.bytes = args.bytes() + outs.bytes();
      run.copied = args.copied() + outs.copied();
      if (!args.blocks().empty()) run.input = args.blocks().front();
      if (!outs.blocks().empty()) run.output = outs.blocks().front();
      record_host_run(call.info, device, run);
    }
    finish(call, outputs);
    return KernelOutcome::Ran;
  });
}

}  // namespace torch_fl
