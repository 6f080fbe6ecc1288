// A strict JSON reader (RFC 8259) for manifests: bounded in depth, UTF-8 only, never crashes on bad input.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ral::json {

enum class Kind { Null, Bool, Number, String, Array, Object };

struct Value {
  Kind kind = Kind::Null;
  bool boolean = false;
  double number = 0;
  std::string string;
  std::vector<Value> items;
  std::map<std::string, Value> members;

  bool is(Kind k) const noexcept { return kind == k; }
  bool is_integer() const noexcept;
  const Value* find(const std::string& name) const noexcept;  // nullptr where absent or not an object
};

const char* kind_name(Kind kind) noexcept;

// False: *problem says what is wrong and where ("line 3, column 7: expected ',' or ']'").
bool parse(std::string_view text, Value* out, std::string* problem);

bool is_utf8(std::string_view text) noexcept;

// At most `size` bytes from the beginning of a UTF-8 text, not cut inside a character.
std::string cut(const std::string& text, size_t size);

// The text between the quotes of a JSON string.
std::string escape(std::string_view text);
inline std::string quote(std::string_view text) { return '"' + escape(text) + '"'; }

}  // namespace ral::json
