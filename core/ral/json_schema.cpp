// JSON Schema subset: one small function a keyword.
#include "json_schema.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <regex>

namespace ral::json {

namespace {

std::string shown(const Value& value) {
  switch (value.kind) {
    case Kind::Null: return "null";
    case Kind::Bool: return value.boolean ? "true" : "false";
    case Kind::Number: {
      char buffer[32];
      std::snprintf(buffer, sizeof buffer, "%.10g", value.number);
      return buffer;
    }
    case Kind::String: return quote(value.string.size() > 60 ? cut(value.string, 57) + "..." : value.string);
    case Kind::Array: return "an array";
    case Kind::Object: return "an object";
  }
  return "?";
}

bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::Null: return true;
    case Kind::Bool: return a.boolean == b.boolean;
    case Kind::Number: return a.number == b.number;
    case Kind::String: return a.string == b.string;
    case Kind::Array:
      if (a.items.size() != b.items.size()) return false;
      for (size_t i = 0; i < a.items.size(); ++i)
        if (!same(a.items[i], b.items[i])) return false;
      return true;
    case Kind::Object:
      if (a.members.size() != b.members.size()) return false;
      for (const auto& [name, member] : a.members) {
        const Value* other = b.find(name);
        if (!other || !same(member, *other)) return false;
      }
      return true;
  }
  return false;
}

bool has_type(const Value& value, const std::string& type) {
  if (type == "integer") return value.is_integer();
  return type == kind_name(value.kind);
}

// Patterns come from our own schemas: few, and compiled once.
const std::regex& compiled(const std::string& pattern) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const known = new std::map<std::string, std::regex>;
  std::lock_guard<std::mutex> guard(*mutex);
  const auto found = known->find(pattern);
  return found != known->end() ? found->second : known->emplace(pattern, std::regex(pattern)).first->second;
}

constexpr size_t kMostPerArray = 8;  // lines about one array's items

class Validator {
 public:
  explicit Validator(std::vector<std::string>* problems) : problems_(problems) {}

  void check(const Value& value, const Value& schema, const std::string& where) {
    if (!type(value, schema, where)) return;
    choice(value, schema, where);
    if (value.is(Kind::Number)) range(value, schema, where);
    if (value.is(Kind::String)) text(value, schema, where);
    if (value.is(Kind::Array)) array(value, schema, where);
    if (value.is(Kind::Object)) object(value, schema, where);
  }

 private:
  void add(const std::string& where, const std::string& what) { problems_->push_back(where + ": " + what); }

  bool type(const Value& value, const Value& schema, const std::string& where) {
    const Value* wanted = schema.find("type");
    if (!wanted || has_type(value, wanted->string)) return true;
    add(where, shown(value) + " is not of type " + wanted->string);
    return false;
  }

  void choice(const Value& value, const Value& schema, const std::string& where) {
    const Value* choices = schema.find("enum");
    if (!choices) return;
    std::string list;
    for (const Value& c : choices->items) {
      if (same(c, value)) return;
      list += (list.empty() ? "" : ", ") + (c.is(Kind::String) ? c.string : shown(c));
    }
    add(where, shown(value) + " is none of " + list);
  }

  void range(const Value& value, const Value& schema, const std::string& where) {
    const Value* low = schema.find("minimum");
    const Value* high = schema.find("maximum");
    if (low && value.number < low->number) add(where, shown(value) + " is less than " + shown(*low));
    if (high && value.number > high->number) add(where, shown(value) + " is more than " + shown(*high));
  }

  void text(const Value& value, const Value& schema, const std::string& where) {
    const Value* low = schema.find("minLength");
    const Value* high = schema.find("maxLength");
    const Value* pattern = schema.find("pattern");
    if (low && value.string.size() < low->number) return add(where, "shorter than " + shown(*low) + " characters");
    if (high && value.string.size() > high->number) return add(where, "longer than " + shown(*high) + " characters");
    // A pattern is only tried on bounded text: std::regex recurses with its length.
    if (pattern && value.string.size() <= 1024 && !std::regex_search(value.string, compiled(pattern->string)))
      add(where, shown(value) + " does not match " + pattern->string);
  }

  void array(const Value& value, const Value& schema, const std::string& where) {
    const Value* low = schema.find("minItems");
    const Value* high = schema.find("maxItems");
    const Value* unique = schema.find("uniqueItems");
    if (low && value.items.size() < low->number) add(where, "fewer than " + shown(*low) + " items");
    if (high && value.items.size() > high->number) return add(where, "more than " + shown(*high) + " items");
    const size_t before = problems_->size();
    if (const Value* items = schema.find("items"))
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (problems_->size() >= before + kMostPerArray) return add(where, "and more");
        check(value.items[i], *items, where + "[" + std::to_string(i) + "]");
      }
    // Each with each: only what is valid, and so small, is compared.
    if (!unique || !unique->boolean || value.items.size() > 4096 || problems_->size() > before) return;
    for (size_t i = 0; i < value.items.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (same(value.items[i], value.items[k])) return add(where, shown(value.items[i]) + " appears twice");
  }

  void object(const Value& value, const Value& schema, const std::string& where) {
    if (const Value* required = schema.find("required"))
      for (const Value& name : required->items)
        if (!value.find(name.string)) add(where, "member " + quote(name.string) + " is missing");
    const Value* properties = schema.find("properties");
    if (!properties) return;
    for (const auto& [name, member] : value.members)
      if (const Value* rule = properties->find(name)) check(member, *rule, where.empty() ? name : where + "." + name);
  }

  std::vector<std::string>* problems_;
};

}  // namespace

void validate(const Value& value, const Value& schema, const std::string& where, std::vector<std::string>* problems) {
  Validator(problems).check(value, schema, where);
}

}  // namespace ral::json
