// The whole test framework: named cases, each in a process of its own (devices and switches are per process), and CHECK.
#pragma once
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "ral/status.h"

extern char** environ;

namespace check {

struct Case {
  const char* name;
  void (*body)();
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
inline int& failures() {
  static int count = 0;
  return count;
}
struct Register {
  Register(const char* name, void (*body)()) { cases().push_back({name, body}); }
};

inline void fail(const char* file, int line, const std::string& text) {
  ++failures();
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
}

template <typename A, typename B>
void equal(const char* file, int line, const char* text, const A& a, const B& b) {
  if (a == b) return;
  std::ostringstream out;
  out << text << ": " << a << " != " << b;
  fail(file, line, out.str());
}

// `body` must throw ral::Error with this code and all these words.
inline void throws(const char* file, int line, ral_status code, const std::vector<std::string>& words,
                   const std::function<void()>& body) {
  try {
    body();
  } catch (const ral::Error& error) {
    const std::string text = error.what();
    if (error.code() != code) fail(file, line, std::string("wrong code: ") + text);
    for (const std::string& word : words)
      if (text.find(word) == std::string::npos) fail(file, line, "\"" + word + "\" is not in: " + text);
    return;
  }
  fail(file, line, std::string("no error; expected ") + ral::code_name(code));
}

inline int run_child(const char* self, const char* name) {
  char* argv[] = {const_cast<char*>(self), const_cast<char*>(name), nullptr};
  pid_t pid;
  if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv, environ) != 0) return 1;
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) std::fprintf(stderr, "%s: killed by signal %d\n", name, WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

inline int main(int argc, char** argv) {
  int bad = 0;
  for (const Case& c : cases()) {
    if (argc > 1) {
      if (strcmp(argv[1], c.name) != 0) continue;
      alarm(120);
      try {
        c.body();
      } catch (const std::exception& error) {
        fail(c.name, 0, std::string("unexpected error: ") + error.what());
      }
      return failures() ? 1 : 0;
    }
    const int status = run_child(argv[0], c.name);
    std::printf("%-44s %s\n", c.name, status == 0 ? "ok" : "FAILED");
    std::fflush(stdout);
    bad += status != 0;
  }
  std::printf("%zu cases, %d failed\n", cases().size(), bad);
  return bad || argc > 1 ? 1 : 0;
}

}  // namespace check

#define TEST(name)                                           \
  static void name();                                        \
  static const check::Register register_##name(#name, name); \
  static void name()
#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
  } while (0)
#define CHECK_EQ(a, b) check::equal(__FILE__, __LINE__, #a " == " #b, a, b)
#define CHECK_THROWS(code, words, ...) \
  check::throws(__FILE__, __LINE__, code, std::vector<std::string> words, [&] { __VA_ARGS__; })
#define CHECK_HAS(text, word)                                                              \
  do {                                                                                     \
    const std::string t_ = (text);                                                         \
    if (t_.find(word) == std::string::npos)                                                \
      check::fail(__FILE__, __LINE__, std::string("\"") + (word) + "\" is not in: " + t_); \
  } while (0)
