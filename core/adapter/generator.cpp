// Random numbers: a generator's whole state is Philox {seed, offset}, 16 bytes, on every device.
//
// CPU-tier operators draw from a CPU generator seeded from that state, so a checkpoint of the 16 bytes
// reproduces them whatever tier runs.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <c10/core/GeneratorImpl.h>

#include <cstring>
#include <mutex>

#include "adapter.h"

namespace torch_fl {
namespace {

class PhiloxGenerator final : public c10::GeneratorImpl {
 public:
  explicit PhiloxGenerator(c10::DeviceIndex index)
      : c10::GeneratorImpl(c10::Device(kRal, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({16}, at::kByte);
    const uint64_t words[2] = {seed_, offset_};
    std::memcpy(state.mutable_data_ptr(), words, 16);
    return state.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == 16, "a ral generator's state is 16 bytes {seed, offset}; got ", state.numel(),
                " bytes");
    uint64_t words[2];
    std::memcpy(words, state.data(), 16);
    seed_ = words[0];
    offset_ = words[1];
  }
  // Counter of the next call; four 32-bit draws a step.
  uint64_t advance(uint64_t steps) {
    const auto now = offset_;
    offset_ += steps;
    return now;
  }
  static c10::DeviceType device_type() { return kRal; }

 private:
  PhiloxGenerator* clone_impl() const override {
    auto* copy = new PhiloxGenerator(device().index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

uint64_t mix(uint64_t x) {  // splitmix64 (Steele, Lea, Flood 2014)
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const std::vector<at::Generator> generators = [] {
    std::vector<at::Generator> all;
    for (int i = 0; i < ral::kMaxDevices; ++i)
      all.push_back(at::make_generator<PhiloxGenerator>(static_cast<c10::DeviceIndex>(i)));
    return all;
  }();
  const int wanted = index < 0 ? current_device() : index;
  TORCH_CHECK(wanted < ral::kMaxDevices, "invalid device index ", wanted);
  return generators[wanted];
}

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<PhiloxGenerator>(index < 0 ? current_device() : index);
}

at::Generator derive_cpu_generator(const std::optional<at::Generator>& generator, c10::DeviceIndex device) {
  at::Generator source = generator && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(source.device().type() == kRal, "Expected a 'ral' device type for generator but found '",
              source.device().type(), "'");
  uint64_t seed, offset;
  {
    std::lock_guard<std::mutex> lock(source.mutex());
    auto* philox = static_cast<PhiloxGenerator*>(source.unsafeGetGeneratorImpl());
    seed = philox->current_seed();
    offset = philox->advance(4);
  }
  return at::make_generator<at::CPUGeneratorImpl>(mix(seed ^ mix(offset)));
}

}  // namespace torch_fl
