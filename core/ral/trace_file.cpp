// Making, growing and writing the mapped trace file.
#include "trace_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "ral/secure_context.h"
#include "ral/trace.h"

namespace ral::trace {

namespace {

static_assert(sizeof(ral_trace_record) == 128, "layout of trace_format.h");
static_assert(sizeof(ral_trace_segment) == 32, "layout of trace_format.h");
static_assert(sizeof(ral_trace_gauge) == 64, "layout of trace_format.h");
static_assert(sizeof(ral_trace_header) <= RAL_TRACE_HEADER_BYTES, "layout of trace_format.h");

constexpr uint64_t kPage = 4096;
constexpr uint64_t kStatusAt = RAL_TRACE_HEADER_BYTES;
constexpr uint64_t kGaugesAt = kStatusAt + RAL_TRACE_STATUS_BYTES;
constexpr uint64_t kDirectoryAt = kGaugesAt + RAL_TRACE_MAX_DEVICES * sizeof(ral_trace_gauge);
constexpr uint64_t kStringsAt = kDirectoryAt + RAL_TRACE_MAX_SEGMENTS * sizeof(ral_trace_segment);
constexpr uint64_t kFixedBytes = (kStringsAt + RAL_TRACE_STRING_BYTES + kPage - 1) / kPage * kPage;

template <typename T, typename V>
void publish(T& place, V value) noexcept {
  __atomic_store_n(&place, static_cast<T>(value), __ATOMIC_RELEASE);
}

// Field 22 of /proc/<pid>/stat, clock ticks since boot; 0 when there is no such process.
uint64_t start_of_process(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string line = text.str();
  const size_t after_name = line.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(line.substr(after_name + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i)
    if (!(fields >> field)) return 0;
  return std::strtoull(field.c_str(), nullptr, 10);
}

uint32_t records_wanted() {
  const char* text = std::getenv("RAL_TRACE_RECORDS");
  const unsigned long asked = text ? std::strtoul(text, nullptr, 10) : 0;
  if (asked == 0) return RAL_TRACE_DEFAULT_RECORDS;
  uint32_t records = 256;
  while (records < asked && records < (1u << 24)) records *= 2;
  return records;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

void* map_shared(int fd, uint64_t offset, uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return nullptr;
  madvise(at, bytes, MADV_DONTFORK);
  return at;
}

}  // namespace

void Writer::put(const ral_trace_record& record, uint32_t thread_id) noexcept {
  ral_trace_record* place = &records[head & mask];
  __atomic_store_n(&place->sequence, 0, __ATOMIC_RELAXED);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(reinterpret_cast<char*>(place) + sizeof place->sequence,
              reinterpret_cast<const char*>(&record) + sizeof record.sequence, sizeof record - sizeof record.sequence);
  place->thread = thread_id;
  ++head;
  __atomic_store_n(&place->sequence, head, __ATOMIC_RELEASE);
  __atomic_store_n(&entry->head, head, __ATOMIC_RELEASE);
}

File* File::create(const std::string& kernel_id, std::string* problem) {
  const uint64_t start = start_of_process(getpid());
  std::string temporary = variable("TMPDIR");
  if (temporary.empty()) temporary = "/tmp";
  const std::string runtime = variable("XDG_RUNTIME_DIR");
  const std::string folders[] = {runtime.empty() ? "" : runtime + "/ral",
                                 temporary + "/ral-" + std::to_string(geteuid())};
  File* file = new File;
  for (const std::string& folder : folders) {
    if (folder.empty() || !file->map(folder, start, problem)) continue;
    remove_stale_files(folder);
    file->set_kernel_id(kernel_id);
    file->calibrate_clock();
    publish(file->header_->magic, RAL_TRACE_MAGIC);
    return file;
  }
  delete file;
  return nullptr;
}

bool File::map(const std::string& folder, uint64_t process_start, std::string* problem) {
  try {
    SecureContext::private_folder(folder);
  } catch (const Error& error) {
    *problem = error.what();
    return false;
  }
  path_ = folder + "/" + std::to_string(getpid()) + "-" + std::to_string(process_start) + ".trace";
  unlink(path_.c_str());
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  const int failed = fd_ < 0 ? errno : posix_fallocate(fd_, 0, kFixedBytes);
  if (failed == 0) base_ = static_cast<char*>(map_shared(fd_, 0, kFixedBytes));
  if (!base_) {
    *problem = "trace file " + path_ + ": " + std::strerror(failed ? failed : errno);
    if (fd_ >= 0) close(fd_), unlink(path_.c_str());
    fd_ = -1;
    return false;
  }
  size_ = kFixedBytes;
  records_per_segment_ = records_wanted();
  header_ = reinterpret_cast<ral_trace_header*>(base_);
  gauges_ = reinterpret_cast<ral_trace_gauge*>(base_ + kGaugesAt);
  directory_ = reinterpret_cast<ral_trace_segment*>(base_ + kDirectoryAt);
  header_->version = RAL_TRACE_VERSION;
  header_->record_bytes = sizeof(ral_trace_record);
  header_->pid = static_cast<uint32_t>(getpid());
  header_->process_start = process_start;
  header_->created_ns = now();
  header_->status_offset = kStatusAt;
  header_->gauge_offset = kGaugesAt;
  header_->directory_offset = kDirectoryAt;
  header_->string_offset = kStringsAt;
  header_->string_capacity = RAL_TRACE_STRING_BYTES;
  header_->string_count = 1;
  return true;
}

void File::set_kernel_id(const std::string& id) {
  std::lock_guard<std::mutex> guard(mutex_);
  std::snprintf(header_->kernel_id, sizeof header_->kernel_id, "%s", id.c_str());
}

void File::set_status(const std::string& json) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (json.size() > RAL_TRACE_STATUS_BYTES) return;  // the caller shortens it
  publish(header_->status_sequence, header_->status_sequence + 1);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(base_ + kStatusAt, json.data(), json.size());
  header_->status_length = static_cast<uint32_t>(json.size());
  publish(header_->status_sequence, header_->status_sequence + 1);
}

bool File::add_string(std::string_view text) {
  std::lock_guard<std::mutex> guard(mutex_);
  const uint64_t bytes = sizeof(uint32_t) + (text.size() + 3) / 4 * 4;
  if (header_->string_used + bytes > RAL_TRACE_STRING_BYTES) {
    publish(header_->strings_dropped, header_->strings_dropped + 1);
    return false;
  }
  char* place = base_ + kStringsAt + header_->string_used;
  const uint32_t length = static_cast<uint32_t>(text.size());
  std::memcpy(place, &length, sizeof length);
  std::memcpy(place + sizeof length, text.data(), text.size());
  publish(header_->string_used, header_->string_used + bytes);
  publish(header_->string_count, header_->string_count + 1);
  return true;
}

bool File::add_segment() {
  const uint32_t index = header_->segment_count;
  const uint64_t bytes = uint64_t(records_per_segment_) * sizeof(ral_trace_record);
  if (index >= RAL_TRACE_MAX_SEGMENTS || now() < refused_until_ns_) return false;
  void* at = posix_fallocate(fd_, static_cast<off_t>(size_), static_cast<off_t>(bytes)) == 0
                 ? map_shared(fd_, size_, bytes)
                 : nullptr;
  if (!at) {
    refused_until_ns_ = now() + 1000000000;
    return false;
  }
  mapped_[index] = static_cast<ral_trace_record*>(at);
  directory_[index].offset = size_;
  directory_[index].capacity = records_per_segment_;
  size_ += bytes;
  publish(header_->segment_count, index + 1);
  return true;
}

bool File::attach(Writer* writer) {
  std::lock_guard<std::mutex> guard(mutex_);
  uint32_t index = 0;
  while (index < header_->segment_count && directory_[index].state != 0) ++index;
  if (index == header_->segment_count && !add_segment()) return false;
  publish(directory_[index].state, 1);
  writer->entry = &directory_[index];
  writer->records = mapped_[index];
  writer->mask = directory_[index].capacity - 1;
  writer->head = directory_[index].head;
  return true;
}

void File::detach(Writer* writer) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (writer->entry) publish(writer->entry->state, 0);
  *writer = Writer();
}

void File::count_drop() noexcept { __atomic_fetch_add(&header_->records_dropped, 1, __ATOMIC_RELAXED); }

void File::calibrate_clock() noexcept {
  int64_t best = INT64_MAX, monotonic = 0, realtime = 0;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = now();
    timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    const int64_t span = now() - before;
    if (span >= best) continue;
    best = span;
    monotonic = before + span / 2;
    realtime = int64_t(wall.tv_sec) * 1000000000 + wall.tv_nsec;
  }
  publish(header_->clock_sequence, header_->clock_sequence + 1);
  std::atomic_thread_fence(std::memory_order_release);
  header_->clock_uncertainty_ns = static_cast<uint32_t>(best / 2 + 1);
  header_->clock_monotonic_ns = monotonic;
  header_->clock_realtime_ns = realtime;
  publish(header_->clock_sequence, header_->clock_sequence + 1);
}

void File::touch() noexcept { futimens(fd_, nullptr); }

bool File::leased(int64_t now_ns) const noexcept {
  for (const ral_trace_lease& lease : header_->leases)
    if (__atomic_load_n(&lease.expiry_ns, __ATOMIC_ACQUIRE) > now_ns) return true;
  return false;
}

void remove_stale_files(const std::string& folder) {
  DIR* listing = opendir(folder.c_str());
  if (!listing) return;
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  while (const dirent* item = readdir(listing)) {
    long pid = 0;
    unsigned long long start = 0;
    int length = 0;
    if (std::sscanf(item->d_name, "%ld-%llu.trace%n", &pid, &start, &length) != 2 || item->d_name[length] ||
        length == 0)
      continue;
    const std::string path = folder + "/" + item->d_name;
    struct stat info;
    if (stat(path.c_str(), &info) != 0 || wall.tv_sec - info.st_mtime < 3600) continue;
    if (start_of_process(pid) != start) unlink(path.c_str());
  }
  closedir(listing);
}

}  // namespace ral::trace
