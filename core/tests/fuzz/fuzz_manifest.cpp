// Fuzzes the reader of kernel_manifest.json: real manifests, changed at random, are read or refused with words.
//
//   RAL_FUZZ_SECONDS=600 fuzz_manifest     for longer than 10 seconds
//   RAL_FUZZ_SEED=123 fuzz_manifest        the one input of that seed again, written to stderr
#include <signal.h>

#include <chrono>

#include "harness.h"
#include "json.h"
#include "json_schema.h"
#include "manifest.h"
#include "manifest_rules.h"
#include "mutate.h"

using namespace ral;

extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

namespace {

constexpr unsigned kSecondsPerInput = 90;  // only what never ends: a sanitizer on a busy machine included

volatile uint64_t g_seed = 0;

// Async-signal-safe: names the seed before the process goes.
void say_seed() {
  char text[] = "died at RAL_FUZZ_SEED=                    \n";
  char digits[20];
  size_t count = 0, at = sizeof "died at RAL_FUZZ_SEED=" - 1;
  for (uint64_t n = g_seed; count == 0 || n; n /= 10) digits[count++] = static_cast<char>('0' + n % 10);
  while (count > 0) text[at++] = digits[--count];
  if (write(2, text, sizeof text - 1) < 0) _exit(2);
}

void on_signal(int number) {
  say_seed();
  signal(number, SIG_DFL);
  raise(number);
}

void watch_for_death() {
  signal(SIGALRM, on_signal);  // an input that takes too long
  if (__sanitizer_set_death_callback) return __sanitizer_set_death_callback(say_seed);
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) signal(number, on_signal);
}

std::string with_all_members() {
  return R"({"manifest_version": 1, "vendor": "v", "version": "1", "kernels": [{"op_name": "aten::add.Tensor",
    "backend": "opencl", "supported_dtypes": ["float32", "bool"], "min_shape_rank": 0, "max_shape_rank": 8,
    "requires_contiguous": true, "kernel_path": "k/add.cl", "symbol": "add", "dialect": "opencl-c",
    "max_elements": 9007199254740992, "cost": 0.5}]})";
}

std::vector<std::string> seeds() {
  const std::string root = std::string(TEST_SOURCE) + "/..";
  return {harness::read(root + "/plugins/opencl/kernel_manifest.json"),
          harness::read(root + "/plugins/template/kernel_manifest.json"),
          harness::read(root + "/tests/testplugin/kernel_manifest.json"), with_all_members()};
}

// The small seeds most of the time: they are read a hundred times as often.
std::string input(const std::vector<std::string>& texts, uint64_t seed) {
  fuzz::Mutator mutate(seed);
  const size_t which = mutate.below(16) ? 1 + mutate.below(texts.size() - 1) : 0;
  return mutate(texts[which]);
}

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

bool holds(const std::string& text) {
  const int before = check::failures();
  alarm(kSecondsPerInput);
  try {
    fuzz::check_text(text);
  } catch (const std::exception& error) {
    check::fail(__FILE__, __LINE__, std::string("read_manifest threw: ") + error.what());
  }
  return check::failures() == before;
}

}  // namespace

TEST(real_manifests_are_read) {
  for (const std::string& text : seeds()) {
    std::vector<ManifestEntry> entries;
    std::vector<std::string> problems;
    CHECK(read_manifest(text, "/folder", &entries, &problems));
    CHECK(!entries.empty());
    if (text != seeds()[2]) CHECK(problems.empty());
  }
}

TEST(mutated_manifests_are_read_or_refused) {
  watch_for_death();
  const std::vector<std::string> texts = seeds();
  if (getenv("RAL_FUZZ_SEED")) {
    g_seed = number("RAL_FUZZ_SEED", 0);
    const std::string text = input(texts, g_seed);
    std::fprintf(stderr, "%s\n", text.c_str());
    CHECK(holds(text));
    return;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(number("RAL_FUZZ_SECONDS", 10));
  size_t count = 0, read = 0;
  for (; std::chrono::steady_clock::now() < end; ++count) {
    g_seed = count;
    const std::string text = input(texts, count);
    if (!holds(text)) {
      std::fprintf(stderr, "failed at RAL_FUZZ_SEED=%zu\n", count);
      return;
    }
    json::Value value;
    read += json::parse(text, &value, nullptr);
  }
  std::printf("%zu inputs, %zu of them JSON\n", count, read);
  CHECK(count > 20);
  CHECK(read > 0 && read < count);  // both ways are tried
}

// Found by fuzzing or by thinking of what it cannot reach.

// Compared each with each, as they once were, these lists make eight thousand million comparisons: the alarm's case.
TEST(a_list_of_many_wrong_values_is_refused) {
  watch_for_death();
  std::string wide = "[";
  for (int i = 0; i < 4000; ++i) {
    wide += i ? ",[" : "[";
    for (int k = 0; k < 1000; ++k) wide += "0,";
    wide += std::to_string(i) + "]";
  }
  wide += "]";
  std::string text = with_all_members();
  const std::string list = R"(["float32", "bool"])";
  text.replace(text.find(list), list.size(), wide);
  CHECK(holds(text));
}

TEST(texts_that_are_no_utf8_are_refused) {
  for (const char* bad : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80", "\xe2\x82"}) {
    json::Value value;
    std::string problem;
    CHECK(!json::parse(std::string("\"") + bad + "\"", &value, &problem));
    CHECK_HAS(problem, "not UTF-8");
  }
  for (const char* good : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    json::Value value;
    CHECK(json::parse(std::string("\"") + good + "\"", &value, nullptr));
  }
}

TEST(messages_are_not_cut_inside_a_character) {
  for (int pad = 0; pad < 4; ++pad) {
    std::string name(static_cast<size_t>(pad), 'x');
    for (int i = 0; i < 400; ++i) name += "\xE2\x82\xAC";
    std::string text = with_all_members();
    text.replace(text.find("aten::add.Tensor"), 16, name);
    CHECK(holds(text));
    text = with_all_members();
    text.replace(text.find("\"bool\""), 6, "\"" + name + "\"");
    CHECK(holds(text));
  }
}

// A manifest with that kernel_path, as JSON, is read without its entry, and the one problem says so.
static void check_path_refused(const char* path, const char* problem) {
  std::string text = with_all_members();
  text.replace(text.find("k/add.cl"), 8, path);
  std::vector<ManifestEntry> entries;
  std::vector<std::string> problems;
  CHECK(read_manifest(text, "/folder", &entries, &problems));
  CHECK(entries.empty());
  CHECK_EQ(problems.size(), 1u);
  if (!problems.empty()) CHECK_HAS(problems[0], problem);
}

TEST(a_nul_character_does_not_end_a_path_early) {
  for (const char* path : {"..\\u0000", "k/add.cl\\u0000.png"}) check_path_refused(path, "kernel_path");
}

TEST(a_path_that_names_no_file_is_refused) {
  for (const char* path : {"/", "k/"}) check_path_refused(path, "names no file");
}

int main(int argc, char** argv) { return check::main(argc, argv); }
