// JSON reader: recursive descent over a string_view with a depth limit.
#include "json.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace ral::json {

namespace {

constexpr int kMaxDepth = 64;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool document(Value* out) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;
    if (!value(out, 0)) return false;
    skip_space();
    return at_ == text_.size() || fail("text after the end of the value");
  }

  std::string problem() const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < bad_at_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') ++line, column = 1;
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + problem_;
  }

 private:
  bool fail(const char* what) {
    if (problem_.empty()) problem_ = what, bad_at_ = at_;
    return false;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
      ++at_;
    }
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return fail("unknown word");
    at_ += w.size();
    return true;
  }

  bool value(Value* out, int depth) {
    if (depth > kMaxDepth) return fail("nested deeper than 64");
    skip_space();
    if (at_ >= text_.size()) return fail("text ends early");
    switch (peek()) {
      case '{': return object(out, depth);
      case '[': return array(out, depth);
      case '"': out->kind = Kind::String; return string(&out->string);
      case 't':
        out->kind = Kind::Bool;
        out->boolean = true;
        return word("true");
      case 'f':
        out->kind = Kind::Bool;
        out->boolean = false;
        return word("false");
      case 'n': out->kind = Kind::Null; return word("null");
      default: return number(out);
    }
  }

  bool object(Value* out, int depth) {
    out->kind = Kind::Object;
    ++at_;
    skip_space();
    if (take('}')) return true;
    while (true) {
      skip_space();
      if (peek() != '"') return fail("expected a member's name in quotes");
      std::string name;
      if (!string(&name)) return false;
      skip_space();
      if (!take(':')) return fail("expected ':'");
      auto [where, fresh] = out->members.emplace(std::move(name), Value());
      if (!fresh) return fail("the same member twice");
      if (!value(&where->second, depth + 1)) return false;
      skip_space();
      if (take('}')) return true;
      if (!take(',')) return fail("expected ',' or '}'");
    }
  }

  bool array(Value* out, int depth) {
    out->kind = Kind::Array;
    ++at_;
    skip_space();
    if (take(']')) return true;
    while (true) {
      out->items.emplace_back();
      if (!value(&out->items.back(), depth + 1)) return false;
      skip_space();
      if (take(']')) return true;
      if (!take(',')) return fail("expected ',' or ']'");
    }
  }

  bool number(Value* out) {
    const size_t begin = at_;
    take('-');
    if (take('0')) {
    } else if (!digits()) {
      return fail("expected a value");
    }
    if (take('.') && !digits()) return fail("expected digits after '.'");
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (!take('+')) take('-');
      if (!digits()) return fail("expected digits in the exponent");
    }
    const std::string text(text_.substr(begin, at_ - begin));
    out->kind = Kind::Number;
    out->number = std::strtod(text.c_str(), nullptr);
    return std::isfinite(out->number) || fail("number out of range");
  }
  bool digits() {
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > begin;
  }

  bool string(std::string* out) {
    const size_t begin = ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        if (!is_utf8(text_.substr(begin, at_ - begin))) return fail("a string that is not UTF-8");
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return fail("control character in a string");
      ++at_;
      if (c != '\\') {
        out->push_back(c);
      } else if (!escaped(out)) {
        return false;
      }
    }
    return fail("string without end");
  }

  bool escaped(std::string* out) {
    const char c = peek();
    ++at_;
    switch (c) {
      case '"':
      case '\\':
      case '/': out->push_back(c); return true;
      case 'b': out->push_back('\b'); return true;
      case 'f': out->push_back('\f'); return true;
      case 'n': out->push_back('\n'); return true;
      case 'r': out->push_back('\r'); return true;
      case 't': out->push_back('\t'); return true;
      case 'u': return unicode(out);
      default: --at_; return fail("unknown escape");
    }
  }
  bool hex4(uint32_t* out) {
    *out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return fail("expected four hex digits");
      *out = *out * 16 + static_cast<uint32_t>(digit);
    }
    return true;
  }
  bool unicode(std::string* out) {
    uint32_t code;
    if (!hex4(&code)) return false;
    if (code >= 0xDC00 && code <= 0xDFFF) return fail("lone surrogate");
    if (code >= 0xD800 && code <= 0xDBFF) {
      uint32_t low;
      if (!take('\\') || !take('u')) return fail("lone surrogate");
      if (!hex4(&low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) return fail("lone surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code < 0x80) {
      out->push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      out->push_back(static_cast<char>(0xC0 | code >> 6));
      out->push_back(static_cast<char>(0x80 | (code & 63)));
    } else if (code < 0x10000) {
      out->push_back(static_cast<char>(0xE0 | code >> 12));
      out->push_back(static_cast<char>(0x80 | (code >> 6 & 63)));
      out->push_back(static_cast<char>(0x80 | (code & 63)));
    } else {
      out->push_back(static_cast<char>(0xF0 | code >> 18));
      out->push_back(static_cast<char>(0x80 | (code >> 12 & 63)));
      out->push_back(static_cast<char>(0x80 | (code >> 6 & 63)));
      out->push_back(static_cast<char>(0x80 | (code & 63)));
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0, bad_at_ = 0;
  std::string problem_;
};

}  // namespace

bool Value::is_integer() const noexcept {
  return kind == Kind::Number && number == std::floor(number) && std::fabs(number) <= 9007199254740992.0;
}

const Value* Value::find(const std::string& name) const noexcept {
  if (kind != Kind::Object) return nullptr;
  const auto where = members.find(name);
  return where == members.end() ? nullptr : &where->second;
}

const char* kind_name(Kind kind) noexcept {
  switch (kind) {
    case Kind::Null: return "null";
    case Kind::Bool: return "boolean";
    case Kind::Number: return "number";
    case Kind::String: return "string";
    case Kind::Array: return "array";
    case Kind::Object: return "object";
  }
  return "unknown";
}

bool is_utf8(std::string_view text) noexcept {
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned first = byte(at);
    const size_t size = first < 0x80                    ? 1
                        : first >= 0xC2 && first < 0xE0 ? 2
                        : first >> 4 == 0xE             ? 3
                        : first >> 3 == 0x1E            ? 4
                                                        : 0;
    if (size == 0) return false;
    for (size_t i = 1; i < size; ++i)
      if ((byte(at + i) & 0xC0) != 0x80) return false;
    const unsigned second = byte(at + 1);
    // Longer than needed, a surrogate, or beyond U+10FFFF.
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F) || first > 0xF4)
      return false;
    at += size;
  }
  return true;
}

std::string cut(const std::string& text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

bool parse(std::string_view text, Value* out, std::string* problem) {
  *out = Value();
  Reader reader(text);
  if (reader.document(out)) return true;
  if (problem) *problem = reader.problem();
  return false;
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char buffer[8];
          std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
          out += buffer;
        } else {
          out.push_back(c);
        }
    }
  }
  return out;
}

}  // namespace ral::json
