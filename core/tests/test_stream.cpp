// Streams and events: order, waiting, copies, errors found late, devices without streams or events.
#include <cmath>

#include "harness.h"

using namespace ral;
using harness::Fixture;
using harness::number;
using harness::Vector;

static uint64_t fill(const Fixture& f, Stream& stream, Block* block, int64_t n, double value) {
  Vector v(block, n);
  const ral_value args[2] = {v.value, number(value)};
  return stream.launch(f.kernel("aten::fill.Scalar"), args, 2, &v.value, 1, nullptr, WorkNote());
}
static uint64_t add(const Fixture& f, Stream& stream, Block* a, Block* b, Block* out, int64_t n, double alpha) {
  Vector va(a, n), vb(b, n), vo(out, n);
  const ral_value args[3] = {va.value, vb.value, number(alpha)};
  const Operand operands[2] = {{RAL_FLOAT32, 1, true, n}, {RAL_FLOAT32, 1, true, n}};
  const Route route = KernelRouter::get().route("aten::add.Tensor", *f.device, operands, 2);
  return stream.launch(route.kernel->handle, args, 3, &vo.value, 1, nullptr, WorkNote());
}

static void compute(const Fixture& f) {
  Block* a = f.pool->allocate(400, *f.stream);
  Block* b = f.pool->allocate(400, *f.stream);
  Block* c = f.pool->allocate(400, *f.stream);
  fill(f, *f.stream, a, 100, 2);
  fill(f, *f.stream, b, 100, 3);
  const uint64_t last = add(f, *f.stream, a, b, c, 100, 10);
  CHECK_EQ(last, 3u);
  CHECK_EQ(f.stream->submitted(), 3u);
  float back[100] = {};
  const MemoryPlace place = MemoryPool::place(c->address, *f.device);
  f.stream->wait(f.stream->copy_to_host(back, place.handle, place.offset, sizeof back, WorkNote()));
  CHECK_EQ(back[0], 32.0f);
  CHECK_EQ(back[99], 32.0f);
  CHECK(f.stream->query());
}

TEST(kernels_and_copies) { compute(Fixture()); }
TEST(without_events) { compute(Fixture({{"EVENTS", "0"}})); }
TEST(without_streams) { compute(Fixture({{"STREAMS", "0"}, {"EVENTS", "0"}})); }
TEST(without_copy_functions) { compute(Fixture({{"COPIES", "0"}})); }
TEST(without_anything) { compute(Fixture({{"COPIES", "0"}, {"STREAMS", "0"}, {"EVENTS", "0"}})); }
TEST(not_host_visible) { compute(Fixture({{"VISIBLE", "0"}})); }
TEST(plugin_gives_no_launch_event) { compute(Fixture({{"NO_LAUNCH_EVENT", "1"}})); }

TEST(copies_by_the_host_keep_order) {
  Fixture f({{"COPIES", "0"}, {"DELAY_US", "20000"}});
  Block* a = f.pool->allocate(64, *f.stream);
  Block* b = f.pool->allocate(64, *f.stream);
  fill(f, *f.stream, a, 16, 5);
  const MemoryPlace from = MemoryPool::place(a->address, *f.device), to = MemoryPool::place(b->address, *f.device);
  f.stream->copy_on_device(to.handle, to.offset, from.handle, from.offset, 64, WorkNote());
  CHECK_EQ(static_cast<float*>(b->address)[15], 5.0f);
  CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"is no memory of ral:0"}),
               f.stream->copy_from_host(&f, 0, &f, 1, WorkNote()));
}

TEST(wait_is_precise) {
  Fixture f;
  const uint64_t first = f.slow(*f.stream, 1000);
  const uint64_t second = f.slow(*f.stream, 300000);
  f.stream->wait(first);
  CHECK(f.stream->complete(first));
  CHECK(!f.stream->complete(second));
  CHECK(f.control->get("flushes") >= 1);  // whoever polls wants the work to run
  const int64_t begin = trace::now();
  f.stream->wait(second);
  CHECK(trace::now() - begin > 100000000);
  CHECK(f.stream->complete(second));
}

TEST(streams_run_side_by_side) {
  Fixture f;
  Stream& other = f.device->new_stream(-1);
  CHECK_EQ(other.id(), 1);
  CHECK_EQ(f.control->get("last_priority"), -1);
  CHECK_EQ(&f.device->stream(1), &other);
  CHECK_EQ(&f.device->stream(0), f.stream);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"stream 2 of ral:0", "streams 0 to 1"}), f.device->stream(2));
  const uint64_t slow = f.slow(*f.stream, 200000);
  other.wait(f.slow(other, 1000));
  CHECK(!f.stream->complete(slow));
  f.device->synchronize();
  CHECK(f.stream->complete(slow));
}

TEST(event_orders_two_streams) {
  Fixture f;
  Stream& other = f.device->new_stream(0);
  Block* a = f.pool->allocate(400, *f.stream);
  Block* b = f.pool->allocate(400, *f.stream);
  f.slow(*f.stream, 100000);
  fill(f, *f.stream, a, 100, 7);
  Event ready;
  CHECK(!ready.recorded() && ready.query());
  ready.record(*f.stream);
  CHECK(!ready.query());
  other.wait_event(ready);
  CHECK_EQ(f.control->get("wait_events"), 1);
  add(f, other, a, a, b, 100, 1);
  other.synchronize();
  CHECK_EQ(static_cast<float*>(b->address)[0], 14.0f);
  CHECK(ready.query());
  other.wait_event(ready);  // nothing to wait for any more
  CHECK_EQ(f.control->get("wait_events"), 1);
}

TEST(event_across_plugins_is_waited_for_by_the_host) {
  harness::Sandbox box;
  box.install_alpha("alpha");
  box.install_alpha("beta");
  CHECK_EQ(DeviceManager::get().count(), 2);
  Device &a = DeviceManager::get().device(0), &b = DeviceManager::get().device(1);
  const Operand operand{RAL_FLOAT32, 1, true, 16};
  const Route slow = KernelRouter::get().route("test::slow", a, &operand, 1);
  ral_value us;
  memset(&us, 0, sizeof us);
  us.tag = RAL_VALUE_INT;
  us.u.i = 100000;
  Event event(false);
  a.default_stream().launch(slow.kernel->handle, &us, 1, nullptr, 0, nullptr, WorkNote());
  event.record(a.default_stream());
  b.default_stream().wait_event(event);
  CHECK(event.query());
}

TEST(elapsed_time) {
  Fixture f;
  Event start, end, untimed(false);
  start.record(*f.stream);
  f.slow(*f.stream, 50000);
  end.record(*f.stream);
  untimed.record(*f.stream);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"not finished"}), end.elapsed_since(start));
  end.synchronize();
  const double ms = end.elapsed_since(start);
  CHECK(ms >= 50 && ms < 5000);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"without timing"}), untimed.elapsed_since(start));
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"never recorded"}), end.elapsed_since(Event()));
}

// Only the host has a clock: right also when the first event lies behind unfinished work.
static void elapsed_by_the_host(const Fixture& f) {
  Event start, middle, end;
  start.record(*f.stream);
  f.slow(*f.stream, 50000);
  middle.record(*f.stream);
  f.slow(*f.stream, 50000);
  end.record(*f.stream);
  end.synchronize();
  CHECK(middle.elapsed_since(start) >= 50);
  CHECK(end.elapsed_since(middle) >= 50);
}
TEST(elapsed_time_without_device_times) { elapsed_by_the_host(Fixture({{"TIMES", "0"}})); }
TEST(elapsed_time_without_events) { elapsed_by_the_host(Fixture({{"EVENTS", "0"}})); }

TEST(elapsed_time_without_streams) {
  Fixture f({{"STREAMS", "0"}, {"EVENTS", "0"}});
  Event start, end;
  start.record(*f.stream);
  f.slow(*f.stream, 30000);
  end.record(*f.stream);
  CHECK(end.query());
  CHECK(end.elapsed_since(start) > 20);
}

TEST(events_are_released) {
  Fixture f;
  for (int i = 0; i < 5000; ++i) f.slow(*f.stream, 0);  // far more than fit into the ring
  f.stream->synchronize();
  CHECK_EQ(f.control->get("events"), 5000);
  CHECK_EQ(f.control->get("events_released"), 5000);
}

TEST(work_in_flight_is_bounded) {
  Fixture f;
  f.slow(*f.stream, 100000);
  const int64_t begin = trace::now();
  for (int i = 0; i < 1100; ++i) f.slow(*f.stream, 0);
  CHECK(trace::now() - begin > 50000000);  // the 1025th launch waited for the oldest
  CHECK(f.control->get("events") - f.control->get("events_released") <= 1024);
  f.stream->synchronize();
}

TEST(refused_launch_is_raised_at_once) {
  Fixture f;
  CHECK_THROWS(RAL_ERROR_UNSUPPORTED,
               ({"RAL_ERROR_UNSUPPORTED", "test::unsupported", "ral:0 (Test device 0)", "not for these strides"}),
               f.stream->launch(f.kernel("test::unsupported"), nullptr, 0, nullptr, 0, nullptr, WorkNote()));
  CHECK_THROWS(RAL_ERROR_LAUNCH, ({"test::fail_launch", "too many work-items"}),
               f.stream->launch(f.kernel("test::fail_launch"), nullptr, 0, nullptr, 0, nullptr, WorkNote()));
  CHECK_EQ(f.stream->submitted(), 0u);
  f.stream->synchronize();
}

TEST(late_error_poisons_once) {
  Fixture f;
  const uint64_t failed = f.stream->launch(f.kernel("test::fail_run"), nullptr, 0, nullptr, 0, nullptr, WorkNote());
  const uint64_t after = f.slow(*f.stream, 1000);
  CHECK_THROWS(RAL_ERROR_RUNTIME, ({"test::fail_run", "failed on ral:0 (Test device 0)", "failed while it ran"}),
               f.stream->wait(after));
  CHECK(f.stream->complete(failed));
  f.stream->synchronize();  // the stream works again
  f.stream->wait(f.slow(*f.stream, 0));
}

TEST(device_synchronize_waits_for_all_before_it_raises) {
  Fixture f;
  Stream& other = f.device->new_stream(0);
  f.stream->launch(f.kernel("test::fail_run"), nullptr, 0, nullptr, 0, nullptr, WorkNote());
  const uint64_t slow = f.slow(other, 100000);
  CHECK_THROWS(RAL_ERROR_RUNTIME, ({"test::fail_run"}), f.device->synchronize());
  CHECK(other.complete(slow));
  f.device->synchronize();
}

TEST(poison_from_above) {
  Fixture f;
  f.stream->poison(Error(RAL_ERROR_RUNTIME, "aten::sort failed on the host"));
  f.stream->poison(Error(RAL_ERROR_RUNTIME, "a later one"));
  CHECK_THROWS(RAL_ERROR_RUNTIME, ({"RAL_ERROR_RUNTIME: aten::sort failed on the host"}), f.stream->synchronize());
  f.stream->synchronize();
}

TEST(waiting_for_a_block_raises_the_error_of_its_stream) {
  Fixture f;
  Block* a = f.pool->allocate(64, *f.stream);
  MemoryPool::note_use(*a, *f.stream,
                       f.stream->launch(f.kernel("test::fail_run"), nullptr, 0, nullptr, 0, nullptr, WorkNote()));
  CHECK_THROWS(RAL_ERROR_RUNTIME, ({"test::fail_run"}), MemoryPool::wait_idle(*a, "item"));
  CHECK_EQ(MemoryPool::wait_idle(*a, "item"), 0);
}

TEST(lost_device) {
  Fixture f({{"DEVICES", "2"}});
  CHECK_EQ(DeviceManager::get().count(), 2);
  CHECK_THROWS(RAL_ERROR_DEVICE_LOST, ({"fell off the bus"}),
               f.stream->launch(f.kernel("test::lost"), nullptr, 0, nullptr, 0, nullptr, WorkNote()));
  CHECK(f.device->lost());
  CHECK_EQ(DeviceManager::get().count(), 1);
  CHECK_EQ(DeviceManager::get().slots(), 2);
  CHECK_THROWS(RAL_ERROR_DEVICE_LOST, ({"ral:0", "is lost"}), f.slow(*f.stream, 0));
  CHECK_THROWS(RAL_ERROR_DEVICE_LOST, ({"ral:0", "is lost"}), f.pool->allocate(64, *f.stream));
  Device& other = DeviceManager::get().device(1);
  CHECK(other.pool().allocate(64, other.default_stream()) != nullptr);
}

TEST(launch_cost_is_measured) {
  Fixture f({{"DELAY_US", "2000"}});
  const double seconds = f.device->launch_cost();
  CHECK(seconds > 0.0015 && seconds < 0.5);
  const int64_t launches = f.control->get("launches");
  CHECK_EQ(f.device->launch_cost(), seconds);
  CHECK_EQ(f.control->get("launches"), launches);
}

TEST(launch_cost_without_kernels) {
  Fixture f({{"KERNELS", "0"}});
  CHECK(std::isinf(f.device->launch_cost()));
}

int main(int argc, char** argv) { return check::main(argc, argv); }
