// Operators that compute each output element from the elements at the same place of their broadcast inputs and from
// numbers: a table of expressions, and the one loop that runs them.
#pragma once
#include <utility>

#include "internal.h"

namespace ral::reference {

constexpr int kMaxArity = 6;

// What an expression sees: schema argument i as a[i], whether a tensor's element or a number. Strings arrive as the
// code that text_code() gives.
template <class T>
struct Args {
  std::array<T, kMaxArity> values;
  uint8_t given;  // bit i: argument i is there
  ral_dtype out;

  const T& operator[](int i) const { return values[i]; }
  bool has(int i) const { return given >> i & 1; }
  T truth(bool b) const { return T(b ? 1 : 0); }
};

template <class T>
using Fn = T (*)(const Args<T>& a);

// "none": 0, "tanh" and "trunc": 1, "floor": 2.
int text_code(const std::string& text);

// Which domain the expression is computed in.
enum class Rule : uint8_t {
  Promoted,  // one that holds the inputs and the output
  Output,    // the output's: fills and selections
  Source     // of the only input that counts: copies
};

struct Op {
  const char* name;
  uint8_t arity;  // schema arguments that matter; later ones are ignored
  Fn<Int> as_int = nullptr;
  Fn<UInt> as_uint = nullptr;
  Fn<Real> as_real = nullptr;
  Fn<Complex> as_complex = nullptr;
  Rule rule = Rule::Promoted;
  uint8_t skip = 0;            // bit i: argument i is not read
  bool discontinuous = false;  // inputs are first rounded to their common dtype, as PyTorch does
  bool checked = false;        // the expression may refuse a value: it is tried everywhere before anything is written

  constexpr Op by(Rule r) const { return change(&Op::rule, r); }
  constexpr Op without(uint8_t mask) const { return change(&Op::skip, mask); }
  constexpr Op stepped() const { return change(&Op::discontinuous, true); }
  constexpr Op refusing() const { return change(&Op::checked, true); }
  template <class M>
  constexpr Op change(M Op::* member, M value) const {
    Op copy = *this;
    copy.*member = value;
    return copy;
  }
};

// By the domains that an expression is meant for.
template <class F>
constexpr Op any(const char* name, uint8_t arity, F f) {
  return {name, arity, f, f, f, f};
}
template <class F>
constexpr Op ordered(const char* name, uint8_t arity, F f) {
  return {name, arity, f, f, f};
}
template <class F>
constexpr Op integers(const char* name, uint8_t arity, F f) {
  return {name, arity, f, f};
}
template <class F>
constexpr Op floats(const char* name, uint8_t arity, F f) {
  return {name, arity, nullptr, nullptr, f, f};
}
constexpr Op reals(const char* name, uint8_t arity, Fn<Real> f) { return {name, arity, nullptr, nullptr, f}; }
// Integers apart from the rest.
template <class I, class F>
constexpr Op either(const char* name, uint8_t arity, I integer, F f) {
  return {name, arity, integer, integer, f};
}

void elementwise(const Op& op, const Call& call);

template <const auto& table, size_t i>
void elementwise_at(const Call& call) {
  elementwise(table[i], call);
}
template <const auto& table, size_t... i>
std::vector<Entry> entries_of(std::index_sequence<i...>) {
  return {{table[i].name, kernel<elementwise_at<table, i>>}...};
}
// A constexpr array of Op as registry entries.
template <const auto& table>
std::vector<Entry> entries() {
  return entries_of<table>(std::make_index_sequence<std::size(table)>());
}

}  // namespace ral::reference
