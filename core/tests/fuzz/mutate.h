// Mutations of a JSON text by a seeded generator: the same seed makes the same text.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace fuzz {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t n) { return n ? static_cast<size_t>(random_() % n) : 0; }

  // One to eight changes of a text: of values only, which leaves most texts JSON, or of anything.
  std::string operator()(std::string text) {
    const bool values_only = below(2) != 0;
    for (size_t left = 1 + below(8); left > 0; --left) {
      if (values_only)
        replace(&text, pick_value(text), below(8) ? below(kValues) : words().size() + below(2));
      else
        change(&text);
    }
    return text;
  }

 private:
  struct Span {
    size_t begin, size;
  };

  void change(std::string* text) {
    switch (below(10)) {
      case 0: return flip_bit(text);
      case 1: text->insert(below(text->size() + 1), 1, static_cast<char>(random_())); return;
      case 2: text->erase(below(text->size() + 1), 1 + below(8)); return;
      case 3: return duplicate(text);
      case 4: text->resize(below(text->size() + 1)); return;
      case 5: return nest(text);
      case 6: return swap_tokens(text);
      default: return replace_token(text);
    }
  }

  void flip_bit(std::string* text) {
    if (!text->empty()) (*text)[below(text->size())] ^= static_cast<char>(1 << below(8));
  }

  void duplicate(std::string* text) {
    const size_t at = below(text->size() + 1);
    const std::string part = text->substr(at, 1 + below(200));
    for (size_t times = 1 + below(4); times > 0; --times) text->insert(at, part);
  }

  // A token wrapped in brackets, most often few, sometimes very many, sometimes not closed.
  void nest(std::string* text) {
    const Span token = pick(*text);
    const size_t depth = below(4) ? 1 + below(70) : 100000;
    const bool array = below(2) != 0, closed = below(3) != 0;
    std::string open, close;
    for (size_t i = 0; i < depth; ++i) open += array ? "[" : "{\"a\":", close += array ? "]" : "}";
    if (closed) text->insert(token.begin + token.size, close);
    text->insert(token.begin, open);
  }

  void swap_tokens(std::string* text) {
    Span a = pick(*text), b = pick(*text);
    if (a.begin > b.begin) std::swap(a, b);
    if (a.begin + a.size > b.begin) return;
    const std::string first = text->substr(a.begin, a.size), second = text->substr(b.begin, b.size);
    text->replace(b.begin, b.size, first);
    text->replace(a.begin, a.size, second);
  }

  void replace_token(std::string* text) { replace(text, pick(*text), below(words().size() + 2)); }

  static constexpr size_t kValues = 32;  // so many of the words, from the first, are JSON values
  static const std::vector<std::string>& words() {
    static const std::vector<std::string> all = {"0",
                                                 "-0",
                                                 "-1",
                                                 "1e308",
                                                 "-1e-400",
                                                 "9007199254740992",
                                                 "9007199254740993",
                                                 "18446744073709551616",
                                                 "2147483648",
                                                 "-2147483649",
                                                 "1.5",
                                                 "64",
                                                 "65",
                                                 "16385",
                                                 "true",
                                                 "false",
                                                 "null",
                                                 "[]",
                                                 "{}",
                                                 "[[]]",
                                                 "\"\"",
                                                 "\"..\"",
                                                 "\"../../etc/passwd\"",
                                                 "\"/\"",
                                                 "\"k/\"",
                                                 "\"a\\u0000b\"",
                                                 "\"..\\u0000\"",
                                                 "\"\\ud83d\\ude00\"",
                                                 "\"float32\"",
                                                 "\"aten::x.y\"",
                                                 "[\"float32\", \"float32\"]",
                                                 "[\"int8\", 1, null]",
                                                 "1e309",
                                                 "NaN",
                                                 "\"\\ud800\"",
                                                 "\"\xff\xfe\"",
                                                 "\"\xc3\"",
                                                 "\"\xed\xa0\x80\"",
                                                 "\"\xc0\xaf\"",
                                                 "\"kernels\"",
                                                 "\"kernels\": []",
                                                 "\"manifest_version\": 2",
                                                 ",",
                                                 ":",
                                                 "]",
                                                 "}",
                                                 "\xEF\xBB\xBF",
                                                 "/* */",
                                                 "'x'"};
    return all;
  }

  void replace(std::string* text, Span token, size_t kind) {
    if (kind < words().size())
      text->replace(token.begin, token.size, words()[kind]);
    else if (kind == words().size())  // a long text of two-byte characters, so that a cut can fall inside one
      text->replace(token.begin, token.size, "\"" + repeat("\xC3\xA9", below(2) ? below(40) : below(5000)) + "a\"");
    else
      text->replace(token.begin, token.size, repeat("9", 1 + below(5000)));
  }

  // The value behind a random colon: a string, an array's beginning or a word.
  Span pick_value(const std::string& text) {
    const size_t colon = text.find(": ", below(text.size() + 1));
    if (colon == std::string::npos) return {text.size(), 0};
    const size_t begin = colon + 2;
    size_t end = begin;
    if (end < text.size() && text[end] == '"')
      end = std::min(text.find('"', end + 1), text.size() - 1) + 1;
    else if (end < text.size() && text[end] == '[' && text.compare(end, 2, "[{") != 0)
      end = std::min(text.find(']', end), text.size() - 1) + 1;
    else
      end = std::min(text.find_first_of(",}\n", end), text.size());
    return {begin, end - begin};
  }

  static std::string repeat(const std::string& part, size_t times) {
    std::string out;
    while (times-- > 0) out += part;
    return out;
  }

  // A token near a random place: a string, a run of letters and digits, or one sign.
  Span pick(const std::string& text) {
    if (text.empty()) return {0, 0};
    const auto is_word = [&text](size_t i) {
      const char c = text[i];
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
    };
    size_t begin = below(text.size());
    const size_t quote = text.find('"', begin);
    if (below(2) && quote != std::string::npos) {
      const size_t end = text.find('"', quote + 1);
      return {quote, end == std::string::npos ? 1 : end + 1 - quote};
    }
    size_t end = begin + 1;
    while (begin > 0 && is_word(begin) && is_word(begin - 1)) --begin;
    while (end < text.size() && is_word(begin) && is_word(end)) ++end;
    return {begin, end - begin};
  }

  std::mt19937_64 random_;
};

}  // namespace fuzz
