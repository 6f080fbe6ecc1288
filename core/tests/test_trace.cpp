// The trace file, read as another process would: layout, records, strings, leases, forks, full disks.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <utime.h>

#include <algorithm>
#include <map>
#include <thread>

#include "harness.h"
#include "json.h"

using namespace ral;
using harness::Fixture;
using harness::number;
using harness::Vector;

// A reader that knows trace_format.h only.
class Reader {
 public:
  explicit Reader(const std::string& path) {
    fd_ = open(path.c_str(), O_RDWR);
    struct stat info;
    CHECK_EQ(fstat(fd_, &info), 0);
    CHECK_EQ(info.st_mode & 0777, 0600u);
    size_ = static_cast<size_t>(info.st_size);
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  }
  ral_trace_header& header() const { return *reinterpret_cast<ral_trace_header*>(base_); }
  ral_trace_gauge gauge(int device) const {
    return reinterpret_cast<ral_trace_gauge*>(base_ + header().gauge_offset)[device];
  }
  std::string status() const { return std::string(base_ + header().status_offset, header().status_length); }
  std::vector<ral_trace_record> records() const {
    std::vector<ral_trace_record> out;
    const auto* directory = reinterpret_cast<const ral_trace_segment*>(base_ + header().directory_offset);
    for (uint32_t s = 0; s < header().segment_count; ++s) {
      const uint64_t head = directory[s].head, capacity = directory[s].capacity;
      CHECK(directory[s].offset + capacity * sizeof(ral_trace_record) <= size_);
      for (uint64_t i = head > capacity ? head - capacity : 0; i < head; ++i) {
        const ral_trace_record& r =
            reinterpret_cast<const ral_trace_record*>(base_ + directory[s].offset)[i % capacity];
        CHECK_EQ(r.sequence, i + 1);
        out.push_back(r);
      }
    }
    return out;
  }
  std::vector<ral_trace_record> of(uint8_t kind) const {
    std::vector<ral_trace_record> out;
    for (const ral_trace_record& r : records())
      if (r.kind == kind) out.push_back(r);
    return out;
  }
  std::string text(uint32_t id) const {
    const char* at = base_ + header().string_offset;
    for (uint32_t i = 1; i < header().string_count; ++i) {
      uint32_t length;
      memcpy(&length, at, 4);
      if (i == id) return std::string(at + 4, length);
      at += 4 + (length + 3) / 4 * 4;
    }
    return "";
  }

 private:
  int fd_;
  size_t size_;
  char* base_;
};

static WorkNote note(const char* op) {
  WorkNote n;
  n.kind = RAL_TRACE_KERNEL;
  n.tier = RAL_TIER_NATIVE;
  n.name = trace::intern(op);
  n.kernel = trace::intern("kernel_of_test");
  n.reason = trace::intern("{\"ran\": \"fits\"}");
  n.bytes = 128;
  n.buffer = 77;
  n.input_buffer = 66;
  return n;
}

static uint64_t traced_fill(const Fixture& f, Block* block, const char* op = "fill") {
  Vector v(block, 16);
  const ral_value args[2] = {v.value, number(1)};
  return f.stream->launch(f.kernel("aten::fill.Scalar"), args, 2, &v.value, 1, nullptr, note(op));
}

TEST(nothing_before_path) {
  Fixture f;
  CHECK(!trace::enabled());
  CHECK(trace::gauge(0) == nullptr);
  trace::mark("lost");
  const uint32_t early = trace::intern("early");
  CHECK_EQ(early, trace::intern("early"));
  const std::string path = trace::path();
  CHECK_EQ(path.substr(0, path.rfind('/')), f.box.root() + "/run/ral");
  CHECK_EQ(trace::path(), path);
  const Reader r(path);
  CHECK_EQ(r.text(early), "early");  // ids made before the file are in it
  CHECK_EQ(r.records().size(), 0u);
}

TEST(header) {
  harness::Sandbox box;
  trace::set_kernel_id("kernel-42");
  const Reader r(trace::path());
  const ral_trace_header& h = r.header();
  CHECK_EQ(h.magic, RAL_TRACE_MAGIC);
  CHECK_EQ(h.version, RAL_TRACE_VERSION);
  CHECK_EQ(h.record_bytes, 128u);
  CHECK_EQ(h.pid, static_cast<uint32_t>(getpid()));
  CHECK(h.process_start > 0);
  CHECK_HAS(trace::path(), std::to_string(getpid()) + "-" + std::to_string(h.process_start) + ".trace");
  CHECK_EQ(std::string(h.kernel_id), "kernel-42");
  CHECK_EQ(h.clock_sequence % 2, 0u);
  CHECK(h.clock_uncertainty_ns > 0 && h.clock_uncertainty_ns < 10000000);
  CHECK(h.clock_realtime_ns > 1600000000LL * 1000000000);
  CHECK_EQ(h.enabled, 0u);
  const int64_t first = h.clock_monotonic_ns;
  CHECK(harness::eventually([&] { return h.clock_monotonic_ns > first; }));  // calibrated each second
}

TEST(status_and_gauges) {
  Fixture f;
  const Reader r(trace::path());
  json::Value v;
  std::string problem;
  CHECK(json::parse(r.status(), &v, &problem));
  CHECK_EQ(v.find("devices")->items.at(0).find("status")->string, "READY");
  const uint32_t before = r.header().status_sequence;
  Block* a = f.pool->allocate(1000, *f.stream);
  const uint64_t view = MemoryPool::begin_view(*a, 0, 8);
  CHECK_EQ(r.gauge(0).allocated, 1000u);
  CHECK_EQ(r.gauge(0).reserved, uint64_t(2) << 20);
  CHECK_EQ(r.gauge(0).peak, 1000u);
  CHECK_EQ(r.gauge(0).live_views, 1u);
  CHECK_EQ(r.gauge(0).total, uint64_t(1) << 30);
  MemoryPool::end_view(a, view, 8);
  f.pool->free(a);
  CHECK_EQ(r.gauge(0).allocated, 0u);
  f.pool->reset_peak();
  usleep(250000);  // room for a gauge that housekeeping might write anew
  CHECK(
      harness::eventually([&] { return r.header().status_sequence > before && r.header().status_sequence % 2 == 0; }));
  CHECK_EQ(r.gauge(0).peak, 1000u);  // since process start, whatever was reset
  CHECK(json::parse(r.status(), &v, &problem));
  CHECK_EQ(v.find("devices")->items.at(0).find("status")->string, "LOADED");
}

TEST(kernel_records) {
  Fixture f({{"DELAY_US", "3000"}});
  const Reader r(trace::path());
  Block* a = f.pool->allocate(64, *f.stream);
  traced_fill(f, a, "before");
  f.stream->synchronize();
  trace::acquire();
  trace::Context& around = trace::context();
  around.location = trace::intern("abcdefabcdef:3");
  around.correlation = 1234;
  around.sequence_number = 9;
  around.backward = true;
  const int64_t begin = trace::now();
  traced_fill(f, a);
  around = trace::Context();  // what counts is the moment of the launch
  trace::flush(true);
  const int64_t end = trace::now();
  trace::release();
  const std::vector<ral_trace_record> kernels = Reader(trace::path()).of(RAL_TRACE_KERNEL);
  CHECK_EQ(kernels.size(), 1u);
  const ral_trace_record& k = kernels.at(0);
  CHECK_EQ(r.text(k.name), "fill");
  CHECK_EQ(r.text(k.kernel), "kernel_of_test");
  CHECK_EQ(r.text(k.location), "abcdefabcdef:3");
  CHECK_HAS(r.text(k.thread), std::to_string(getpid()) + " ");
  CHECK_EQ(k.correlation, 1234u);
  CHECK_EQ(k.sequence_number, 9);
  CHECK_EQ(k.tier, RAL_TIER_NATIVE);
  CHECK_EQ(k.flags, RAL_TRACE_BACKWARD);
  CHECK_EQ(k.bytes, 128u);
  CHECK_EQ(k.buffer, 77u);
  CHECK_EQ(k.aux64, 66u);
  CHECK_EQ(k.device, 0);
  CHECK(begin <= k.queued_ns && k.queued_ns <= k.begin_ns && k.begin_ns < k.end_ns && k.end_ns <= end);
  CHECK(k.end_ns - k.begin_ns >= 3000000);
  CHECK_EQ(r.gauge(0).kernels, 1u);
  CHECK_EQ(r.gauge(0).busy_ns, static_cast<uint64_t>(k.end_ns - k.begin_ns));
}

TEST(kernel_records_without_device_times) {
  Fixture f({{"TIMES", "0"}});
  trace::acquire();
  traced_fill(f, f.pool->allocate(64, *f.stream));
  trace::flush(true);
  const ral_trace_record k = Reader(trace::path()).of(RAL_TRACE_KERNEL).at(0);
  CHECK_EQ(k.flags, RAL_TRACE_NO_DEVICE_TIME);
  CHECK(k.begin_ns > 0 && k.end_ns >= k.begin_ns);
}

TEST(kernel_records_of_a_device_without_streams) {
  Fixture f({{"STREAMS", "0"}, {"EVENTS", "0"}});
  trace::acquire();
  traced_fill(f, f.pool->allocate(64, *f.stream));
  CHECK_EQ(Reader(trace::path()).of(RAL_TRACE_KERNEL).size(), 1u);
}

TEST(failed_kernel_is_marked) {
  Fixture f;
  trace::acquire();
  f.stream->launch(f.kernel("test::fail_run"), nullptr, 0, nullptr, 0, nullptr, note("fail"));
  trace::flush(true);
  CHECK(Reader(trace::path()).of(RAL_TRACE_KERNEL).at(0).flags & RAL_TRACE_FAILED);
  CHECK_THROWS(RAL_ERROR_RUNTIME, ({"fail_run"}), f.stream->synchronize());  // flush does not eat the error
}

TEST(copies_syncs_and_marks) {
  Fixture f({{"DELAY_US", "20000"}, {"COPIES", "0"}});
  trace::acquire();
  Block* a = f.pool->allocate(64, *f.stream);
  const MemoryPlace place = MemoryPool::place(a->address, *f.device);
  WorkNote n;
  n.kind = RAL_TRACE_COPY;
  n.name = trace::intern("host_to_device");
  n.bytes = 64;
  char data[64] = {};
  f.stream->copy_from_host(place.handle, place.offset, data, 64, n);
  traced_fill(f, a);
  f.stream->synchronize();
  MemoryPool::note_use(*a, *f.stream, traced_fill(f, a));
  MemoryPool::wait_idle(*a, "item");
  Event event;
  event.record(*f.stream);
  event.synchronize();
  trace::mark("cell begin abc");
  const Reader r(trace::path());
  const ral_trace_record copy = r.of(RAL_TRACE_COPY).at(0);
  CHECK_EQ(r.text(copy.name), "host_to_device");
  CHECK(copy.flags & RAL_TRACE_HOST);
  std::vector<std::string> syncs;
  for (const ral_trace_record& s : r.of(RAL_TRACE_SYNC)) {
    syncs.push_back(r.text(s.name));
    CHECK(s.end_ns - s.begin_ns > 5000000);
    CHECK_EQ(s.device, 0);
  }
  CHECK((syncs == std::vector<std::string>{"synchronize", "item", "event"}));
  f.stream->synchronize();  // nothing to wait for: no record
  CHECK_EQ(r.of(RAL_TRACE_SYNC).size(), 3u);
  CHECK_EQ(r.text(r.of(RAL_TRACE_MARK).at(0).name), "cell begin abc");
}

TEST(buffers_and_snapshot) {
  Fixture f;
  Block* old = f.pool->allocate(5000, *f.stream);
  f.pool->free(f.pool->allocate(700, *f.stream));
  trace::acquire();
  trace::context().op = trace::intern("aten::empty");
  Block* fresh = f.pool->allocate(300, *f.stream);
  const uint64_t view = MemoryPool::begin_view(*fresh, 16, 100);
  MemoryPool::end_view(fresh, view, 100);
  f.pool->free(fresh);
  const Reader r(trace::path());
  const std::vector<ral_trace_record> allocs = r.of(RAL_TRACE_ALLOC);
  CHECK_EQ(allocs.size(), 2u);
  CHECK_EQ(allocs[0].buffer, old->id);
  CHECK_EQ(allocs[0].flags, RAL_TRACE_SNAPSHOT);
  CHECK_EQ(allocs[0].bytes, 5000u);
  CHECK_EQ(allocs[1].bytes, 300u);
  CHECK_EQ(r.text(allocs[1].name), "aten::empty");
  const ral_trace_record v = r.of(RAL_TRACE_VIEW).at(0);
  CHECK_EQ(v.buffer, view);
  CHECK_EQ(v.aux64, allocs[1].buffer);
  CHECK_EQ(v.bytes, 100u);
  const std::vector<ral_trace_record> frees = r.of(RAL_TRACE_FREE);
  CHECK_EQ(frees.size(), 2u);
  CHECK_EQ(frees[0].buffer, view);
  CHECK_EQ(frees[1].buffer, allocs[1].buffer);
  trace::acquire();  // counted: no second snapshot
  CHECK_EQ(r.of(RAL_TRACE_ALLOC).size(), 2u);
  trace::release();
  CHECK(trace::enabled());
  trace::release();
  CHECK(!trace::enabled());
  CHECK_EQ(r.header().enabled, 0u);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"without acquire"}), trace::release());
}

TEST(leases) {
  Fixture f;
  f.pool->allocate(5000, *f.stream);
  Reader r(trace::path());
  CHECK(!trace::enabled());
  const auto seconds_from_now = [](int64_t seconds) { return trace::now() + seconds * 1000000000; };
  r.header().leases[3].expiry_ns = seconds_from_now(600);
  CHECK(harness::eventually([] { return trace::enabled(); }));
  CHECK_EQ(r.header().enabled, 1u);
  traced_fill(f, f.pool->allocate(64, *f.stream));
  // Collected by housekeeping, nobody waits for it.
  CHECK(harness::eventually([] { return Reader(trace::path()).of(RAL_TRACE_KERNEL).size() == 1; }));
  CHECK_EQ(Reader(trace::path()).of(RAL_TRACE_ALLOC).at(0).flags, RAL_TRACE_SNAPSHOT);
  r.header().leases[3].expiry_ns = seconds_from_now(0);  // as if the reader had never renewed it
  CHECK(harness::eventually([] { return !trace::enabled(); }));
}

TEST(threads_have_segments) {
  harness::Sandbox box;
  setenv("RAL_TRACE_RECORDS", "1024", 1);
  trace::acquire();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 3000; ++i) {
        ral_trace_record r = trace::make(RAL_TRACE_OP);
        r.buffer = static_cast<uint64_t>(t);
        r.bytes = static_cast<uint64_t>(i);
        r.name = trace::intern("op " + std::to_string(i % 100));
        trace::emit(r);
      }
    });
  for (std::thread& t : threads) t.join();
  // Segments of ended threads pass on; what is left is whole and in order.
  std::thread([] { trace::mark("reused"); }).join();
  const Reader r(trace::path());
  CHECK(r.header().segment_count <= 8);
  std::map<uint64_t, uint64_t> last;
  for (const ral_trace_record& op : r.of(RAL_TRACE_OP)) {
    CHECK_EQ(r.text(op.name), "op " + std::to_string(op.bytes % 100));
    if (last.count(op.buffer)) CHECK(op.bytes > last[op.buffer]);
    last[op.buffer] = op.bytes;
  }
  CHECK_EQ(r.of(RAL_TRACE_MARK).size(), 1u);
  CHECK_EQ(r.header().records_dropped, 0u);
}

TEST(many_threads_drop_and_count) {
  harness::Sandbox box;
  setenv("RAL_TRACE_RECORDS", "256", 1);
  trace::acquire();
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 70; ++t)
    threads.emplace_back([&] {
      trace::mark("x");
      ++ready;
      while (!go) usleep(1000);
    });
  while (ready < 70) usleep(1000);
  go = true;
  for (std::thread& t : threads) t.join();
  const Reader r(trace::path());
  CHECK_EQ(r.header().segment_count, RAL_TRACE_MAX_SEGMENTS);
  CHECK_EQ(r.header().records_dropped, 70u - RAL_TRACE_MAX_SEGMENTS);
}

TEST(strings_are_bounded) {
  harness::Sandbox box;
  const Reader r(trace::path());
  const uint32_t a = trace::intern("same"), b = trace::intern(std::string("sa") + "me"), empty = trace::intern("");
  CHECK(a == b && a != 0 && empty != 0 && empty != a);
  std::thread([a] { CHECK_EQ(trace::intern("same"), a); }).join();
  uint32_t id = 1;
  for (int i = 0; id != 0 && i < 10000; ++i) id = trace::intern(std::to_string(i) + std::string(4000, 'x'));
  CHECK_EQ(id, 0u);
  CHECK(r.header().strings_dropped >= 1);
  CHECK(r.header().string_used <= RAL_TRACE_STRING_BYTES);
  CHECK_EQ(trace::intern("same"), a);
  CHECK_EQ(r.text(a), "same");
}

TEST(locations_of_threads_without_a_line) {
  harness::Sandbox box;
  const uint32_t line = trace::intern("abc:1"), inner = trace::intern("abc:2");
  trace::g_main_location.store(line | uint64_t(inner) << 32);
  CHECK_EQ(trace::make(RAL_TRACE_OP).location, line);
  CHECK_EQ(trace::make(RAL_TRACE_OP).inner_location, inner);
  trace::context().location = inner;
  CHECK_EQ(trace::make(RAL_TRACE_OP).location, inner);
}

TEST(compile_records) {
  Fixture f;
  trace::acquire();
  const ral_host& host = f.control->host();
  const uint64_t id = host.compile_begin(0, "gelu");
  usleep(2000);
  host.compile_end(id, RAL_ERROR_COMPILE);
  host.compile_end(999, RAL_SUCCESS);
  const Reader r(trace::path());
  const std::vector<ral_trace_record> builds = r.of(RAL_TRACE_COMPILE);
  CHECK_EQ(builds.size(), 2u);
  CHECK_EQ(builds[0].end_ns, 0);
  CHECK_EQ(builds[1].begin_ns, builds[0].begin_ns);
  CHECK(builds[1].end_ns - builds[1].begin_ns >= 2000000);
  CHECK_EQ(r.text(builds[1].name), "gelu");
  CHECK_EQ(builds[1].flags, RAL_TRACE_FAILED);
  CHECK_EQ(builds[1].device, 0);
}

TEST(forked_child_never_writes_the_parents_file) {
  Fixture f;
  trace::acquire();
  trace::mark("parent");
  const Reader r(trace::path());
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(10);
    int wrong = trace::enabled();
    trace::mark("child");
    trace::acquire();
    wrong += trace::enabled();
    wrong += !trace::path().empty();
    wrong += trace::gauge(0) != nullptr;
    trace::flush(true);
    _exit(wrong);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_EQ(r.of(RAL_TRACE_MARK).size(), 1u);
  trace::mark("parent again");
  CHECK_EQ(r.of(RAL_TRACE_MARK).size(), 2u);
}

// The file of a dead process stays readable.
TEST(file_outlives_its_process) {
  harness::Sandbox box;
  const std::string path_file = box.root() + "/path";
  const pid_t pid = fork();
  if (pid == 0) {
    trace::acquire();
    trace::mark("last words");
    harness::write(path_file, trace::path());
    raise(SIGKILL);
  }
  waitpid(pid, nullptr, 0);
  const Reader r(harness::read(path_file));
  CHECK_EQ(r.text(r.of(RAL_TRACE_MARK).at(0).name), "last words");
}

TEST(stale_files_are_removed) {
  harness::Sandbox box;
  const std::string folder = box.root() + "/run/ral";
  mkdir(folder.c_str(), 0700);
  const std::string old = folder + "/999999-1.trace", young = folder + "/999998-1.trace",
                    other = folder + "/999997-1.txt";
  for (const std::string& path : {old, young, other}) harness::write(path, "x");
  const utimbuf hours_ago = {time(nullptr) - 7200, time(nullptr) - 7200};
  utime(old.c_str(), &hours_ago);
  utime(other.c_str(), &hours_ago);
  CHECK(!trace::path().empty());
  CHECK(access(old.c_str(), F_OK) != 0);
  CHECK(access(young.c_str(), F_OK) == 0);
  CHECK(access(other.c_str(), F_OK) == 0);
}

// A link with the file's name leads nowhere: the file is made anew, and what the link led to stays as it was.
TEST(planted_link_is_not_followed) {
  harness::Sandbox box;
  const std::string folder = box.root() + "/run/ral", victim = box.root() + "/victim";
  mkdir(folder.c_str(), 0700);
  harness::write(victim, "mine");
  std::istringstream fields(harness::read("/proc/self/stat").substr(harness::read("/proc/self/stat").rfind(')') + 2));
  std::string start;
  for (int field = 3; field <= 22; ++field) fields >> start;
  const std::string planted = folder + "/" + std::to_string(getpid()) + "-" + start + ".trace";
  CHECK_EQ(symlink(victim.c_str(), planted.c_str()), 0);
  CHECK_EQ(std::string(trace::path()), planted);
  struct stat info;
  CHECK_EQ(lstat(planted.c_str(), &info), 0);
  CHECK(S_ISREG(info.st_mode) && (info.st_mode & 0777) == 0600);
  CHECK_EQ(harness::read(victim), "mine");
}

TEST(second_folder_when_the_first_cannot_be_used) {
  harness::Sandbox box;
  harness::write(box.root() + "/run/ral", "a file where the folder should be");
  CHECK_HAS(trace::path(), box.root() + "/tmp/ral-" + std::to_string(geteuid()) + "/");
}

// A full disk: no file, one message, no crash, recording stays off.
TEST(no_space) {
  harness::Sandbox box;
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {65536, 65536};
  setrlimit(RLIMIT_FSIZE, &limit);
  CHECK_EQ(trace::path(), "");
  trace::acquire();
  CHECK(!trace::enabled());
  trace::mark("nowhere");
  trace::release();
}

TEST(no_space_for_a_segment) {
  harness::Sandbox box;
  signal(SIGXFSZ, SIG_IGN);
  const std::string path = trace::path();
  const rlimit limit = {5 << 20, 5 << 20};
  setrlimit(RLIMIT_FSIZE, &limit);
  trace::acquire();
  CHECK(trace::enabled());
  trace::mark("a");
  trace::mark("b");
  const Reader r(path);
  CHECK_EQ(r.header().records_dropped, 2u);
  CHECK_EQ(r.header().segment_count, 0u);
}

int main(int argc, char** argv) { return check::main(argc, argv); }
