// The trace's view of PyTorch's host side: every operator, user range and backward node while recording, the
// line that each belongs to, and the birth and death of views.
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>

#include <iterator>
#include <mutex>

#include "adapter.h"
#include "op_info.h"

namespace torch_fl {
namespace {

std::mutex g_mutex;
std::atomic<bool> g_installed{false};
at::CallbackHandle g_handle = at::INVALID_CALLBACK_HANDLE;

// Lines of forward operators by autograd sequence number, for their backward ones. A ring of slots; old graphs may be
// overwritten and then show no forward line.
struct ForwardSlot {
  std::atomic<uint64_t> sequence{0};
  std::atomic<uint32_t> location{0};
};
constexpr size_t kForwardSlots = 1 << 16;
ForwardSlot g_forward[kForwardSlots];

enum class Range { op, backward_node, user };

// What a range changed in its thread's context, to be put back when it ends. PyTorch deletes it; its memory is kept by
// the thread for the next one, as there is one for every operator.
struct Frame final : public at::ObserverContext {
  static void* operator new(size_t size);
  static void operator delete(void* memory) noexcept;

  ral::trace::Context before;
  int64_t begin = 0;
  uint64_t first_sequence = 0;  // autograd's next number when the operator began
  uint32_t name = 0;
  Range range = Range::op;
};

struct Spares {
  static constexpr int kMost = 16;
  void* memory[kMost];
  int count = 0;
  ~Spares() {
    while (count > 0) ::operator delete(memory[--count]);
    count = kMost;  // whatever ends later on this thread is freed at once
  }
};
thread_local Spares t_spares;

void* Frame::operator new(size_t size) {
  auto& spares = t_spares;
  return spares.count > 0 && spares.count < Spares::kMost ? spares.memory[--spares.count] : ::operator new(size);
}
void Frame::operator delete(void* memory) noexcept {
  auto& spares = t_spares;
  if (spares.count < Spares::kMost - 1) {
    spares.memory[spares.count++] = memory;
  } else {
    ::operator delete(memory);
  }
}

// The operator that this thread is in, if any, and how many inner calls it made. Switching those off costs PyTorch some
// 0.5 us, more than it costs to pass over two of them one by one; most operators have no more.
struct Outermost {
  static constexpr int kSingly = 2;
  bool inside = false;
  int inner = 0;
};
thread_local Outermost t_outermost;

// Lives as long as a view's TensorImpl and tells the trace of its end.
class ViewLife final : public c10::BackendMeta {
 public:
  ViewLife(uint64_t id, uint64_t bytes, c10::Storage storage) : id_(id), bytes_(bytes), storage_(std::move(storage)) {}
  ~ViewLife() override { ral::MemoryPool::end_view(ral::MemoryPool::find(storage_.data()), id_, bytes_); }
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return nullptr;  // a shallow copy is another tensor; it is not this view
  }

 private:
  uint64_t id_, bytes_;
  c10::Storage storage_;
};

// is_view_name(), remembered by the name's number in the trace.
bool makes_views(uint32_t id, const char* name) {
  static std::atomic<uint8_t> known[4096] = {};  // 0 unknown, 1 no, 2 yes
  if (id >= std::size(known)) return is_view_name(name);
  uint8_t answer = known[id].load(std::memory_order_relaxed);
  if (!answer) known[id].store(answer = is_view_name(name) ? 2 : 1, std::memory_order_relaxed);
  return answer == 2;
}

void note_view(const at::RecordFunction& fn) {
  if (fn.outputs().empty() || !fn.outputs().front().isTensor()) return;
  const auto& t = fn.outputs().front().toTensor();
  if (!is_ral(t) || !t.has_storage() || t.unsafeGetTensorImpl()->get_backend_meta()) return;
  auto* block = block_of(t);
  if (!block) return;
  const uint64_t bytes = static_cast<uint64_t>(t.numel()) * t.itemsize();
  const auto id = ral::MemoryPool::begin_view(*block, static_cast<uint64_t>(t.storage_offset()) * t.itemsize(), bytes);
  t.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<ViewLife>(id, bytes, t.storage()));
}

ForwardSlot& forward_slot(int64_t sequence) { return g_forward[static_cast<size_t>(sequence) & (kForwardSlots - 1)]; }

// The numbers that autograd gave to the nodes of one operator belong to the line that called it.
void remember_forward(uint64_t first, const ral::trace::Context& context) {
  constexpr uint64_t kMost = 256;
  const uint64_t end = std::min(at::sequence_number::peek(), first + kMost);
  for (uint64_t sequence = first; sequence < end; ++sequence) {
    auto& slot = forward_slot(static_cast<int64_t>(sequence));
    slot.location.store(context.inner_location, std::memory_order_relaxed);
    slot.sequence.store(sequence + 1, std::memory_order_release);
  }
}

uint32_t forward_location(int64_t sequence) {
  if (sequence < 0) return 0;
  auto& slot = forward_slot(sequence);
  const bool ours = slot.sequence.load(std::memory_order_acquire) == static_cast<uint64_t>(sequence) + 1;
  return ours ? slot.location.load(std::memory_order_relaxed) : 0;
}

// The engine's range around each backward node. It stands for the node's own range (scope BACKWARD_FUNCTION), which
// would make PyTorch put the node's name together a second time.
constexpr std::string_view kNodePrefix = "autograd::engine::evaluate_function: ";

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& fn) {
  if (!ral::trace::enabled()) return nullptr;
  std::string_view name = fn.name();
  Range range = fn.scope() == at::RecordScope::USER_SCOPE ? Range::user : Range::op;
  if (range == Range::op && name.substr(0, kNodePrefix.size()) == kNodePrefix) {
    range = Range::backward_node;
    name.remove_prefix(kNodePrefix.size());
  } else if (name.substr(0, 6) == "aten::") {
    name.remove_prefix(6);
  }
  if (range == Range::op) {
    // Only the outermost operator is recorded: what it calls is how PyTorch composes it, and would cost more to write
    // down than to run.
    if (t_outermost.inside) {
      if (++t_outermost.inner == Outermost::kSingly) at::enableRecordFunction(false);
      return nullptr;
    }
    t_outermost.inside = true;
  }
  auto& context = ral::trace::context();
  auto frame = std::make_unique<Frame>();
  frame->before = context;
  frame->range = range;
  frame->begin = ral::trace::now();
  frame->name = ral::trace::intern(name);
  if (range == Range::user) return frame;
  context.op = frame->name;
  context.correlation = ral::trace::next_id();
  if (range == Range::backward_node) {
    const auto node = torch::autograd::get_current_node();  // this range itself has no sequence number
    context.backward = true;
    context.sequence_number = node ? static_cast<int64_t>(node->sequence_nr()) : -1;
    context.forward_location = forward_location(context.sequence_number);
  } else {
    if (!context.backward) context.sequence_number = fn.seqNr();
    frame->first_sequence = at::sequence_number::peek();
  }
  return frame;
}

void on_end(const at::RecordFunction& fn, at::ObserverContext* observed) {
  auto* frame = static_cast<Frame*>(observed);
  if (!frame) return;
  auto& context = ral::trace::context();
  if (frame->range == Range::op) {
    if (t_outermost.inner >= Outermost::kSingly) at::enableRecordFunction(true);
    t_outermost = {};
    if (!context.backward && context.inner_location) remember_forward(frame->first_sequence, context);
    if (ral::trace::enabled() && makes_views(frame->name, fn.name())) note_view(fn);
  }
  if (ral::trace::enabled()) {
    auto record = ral::trace::make(RAL_TRACE_OP);
    record.begin_ns = frame->begin;
    record.name = frame->name;
    if (frame->range == Range::user) record.flags |= RAL_TRACE_USER_RANGE;
    ral::trace::emit(record);
  }
  // Lines set while the operator ran (a Python callback) stay; the rest goes back.
  const auto location = context.location, inner = context.inner_location;
  context = frame->before;
  context.location = location;
  context.inner_location = inner;
}

}  // namespace

void sync_observer() {
  const bool wanted = ral::trace::enabled();
  if (C10_LIKELY(wanted == g_installed.load(std::memory_order_relaxed))) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  if (wanted == g_installed.load(std::memory_order_relaxed)) return;
  if (wanted) {
    g_handle = at::addGlobalCallback(at::RecordFunctionCallback(&on_begin, &on_end)
                                         .needsOutputs(true)
                                         .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  } else {
    at::removeCallback(g_handle);
  }
  g_installed.store(wanted, std::memory_order_release);
}

}  // namespace torch_fl
