// JSON reader, schema subset and size classes: values, messages and bad input.
#include "harness.h"
#include "json.h"
#include "json_schema.h"
#include "size_class.h"

using namespace ral;

static std::string problem_of(const std::string& text) {
  json::Value value;
  std::string problem;
  return json::parse(text, &value, &problem) ? "" : problem;
}

TEST(reads_values) {
  json::Value v;
  CHECK(json::parse(R"( {"a": [1, -2.5e3, true, null], "b": "x\n\u00e9\ud83d\ude00", "c": {}} )", &v, nullptr));
  CHECK_EQ(v.find("a")->items.size(), 4u);
  CHECK_EQ(v.find("a")->items[1].number, -2500.0);
  CHECK(v.find("a")->items[2].boolean);
  CHECK(v.find("a")->items[3].is(json::Kind::Null));
  CHECK_EQ(v.find("b")->string, "x\n\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(v.find("c")->is(json::Kind::Object));
  CHECK(v.find("d") == nullptr);
}

TEST(names_place_of_errors) {
  CHECK_EQ(problem_of("{\"a\": 1,\n  \"b\" 2}"), "line 2, column 7: expected ':'");
  for (const char* bad : {"", "{", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "tru", "\"", "\"\\x\"", "\"\\ud800\"",
                          "\"\t\"", "1 2", "{\"a\":1,\"a\":2}", "1e999", "nan", "[1 2]", "-"})
    CHECK(!problem_of(bad).empty());
}

TEST(depth_is_bounded) {
  CHECK(problem_of(std::string(60, '[') + std::string(60, ']')).empty());
  CHECK_HAS(problem_of(std::string(1000000, '[')), "nested deeper");
  CHECK_HAS(problem_of(std::string(100000, '{')), "expected a member's name");
}

// Every prefix and many single-byte changes of a valid text: no crash, and prefixes are never valid.
TEST(survives_damage) {
  const std::string good = harness::read(std::string(TEST_SOURCE) + "/testplugin/kernel_manifest.json");
  const std::string text = good.substr(0, good.find_last_of('}') + 1);
  CHECK(problem_of(text).empty());
  for (size_t i = 0; i < text.size(); ++i) CHECK(!problem_of(text.substr(0, i)).empty());
  int parsed = 0;
  for (size_t i = 0; i < text.size(); i += 3) {
    for (const char c : {'\0', '"', '\\', '{', ']', '\xff', '9'}) {
      std::string damaged = text;
      damaged[i] = c;
      parsed += problem_of(damaged).empty();
    }
  }
  CHECK(parsed > 0);  // changes inside strings are still JSON
}

TEST(escapes) {
  CHECK_EQ(json::quote("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\"");
  json::Value back;
  CHECK(json::parse(json::quote("tab\there \x02 / é"), &back, nullptr));
  CHECK_EQ(back.string, "tab\there \x02 / é");
}

TEST(schema_keywords) {
  json::Value schema, value;
  CHECK(json::parse(R"({"type":"object","required":["n"],"properties":{
    "n":{"type":"integer","minimum":1,"maximum":5}, "s":{"type":"string","minLength":2,"maxLength":4,"pattern":"^a"},
    "l":{"type":"array","minItems":1,"maxItems":3,"uniqueItems":true,"items":{"enum":["x","y",3]}}}})",
                    &schema, nullptr));
  const auto problems = [&](const char* text) {
    CHECK(json::parse(text, &value, nullptr));
    std::vector<std::string> out;
    json::validate(value, schema, "", &out);
    std::string all;
    for (const std::string& line : out) all += line + "|";
    return all;
  };
  CHECK_EQ(problems(R"({"n":3,"s":"abc","l":["x",3],"other":1})"), "");
  CHECK_HAS(problems(R"({})"), "member \"n\" is missing");
  CHECK_HAS(problems(R"({"n":0})"), "n: 0 is less than 1");
  CHECK_HAS(problems(R"({"n":6})"), "n: 6 is more than 5");
  CHECK_HAS(problems(R"({"n":1.5})"), "n: 1.5 is not of type integer");
  CHECK_HAS(problems(R"({"n":1,"s":"a"})"), "s: shorter than 2");
  CHECK_HAS(problems(R"({"n":1,"s":"abcde"})"), "s: longer than 4");
  CHECK_HAS(problems(R"({"n":1,"s":"ba"})"), "s: \"ba\" does not match ^a");
  CHECK_HAS(problems(R"({"n":1,"l":[]})"), "l: fewer than 1");
  CHECK_HAS(problems(R"({"n":1,"l":["x","x"]})"), "l: \"x\" appears twice");
  CHECK_HAS(problems(R"({"n":1,"l":["z"]})"), "l[0]: \"z\" is none of x, y, 3");
  CHECK_HAS(problems(R"([])"), "not of type object");
}

TEST(size_classes) {
  CHECK_EQ(class_bytes(size_class(0)), 256u);
  CHECK_EQ(class_bytes(size_class(256)), 256u);
  CHECK_EQ(class_bytes(size_class(257)), 320u);
  CHECK_EQ(class_bytes(size_class(1 << 20)), uint64_t(1) << 20);
  CHECK_EQ(size_class(1 << 20), kSmallClasses - 1);
  CHECK_EQ(size_class((1 << 20) + 1), kPieceClass);
  CHECK_EQ(size_class(kPieceLimit), kPieceClass);
  CHECK_EQ(class_bytes(size_class(kPieceLimit + 1)), kPieceLimit * 9 / 8);
  CHECK_EQ(size_class(kLargest), kClasses - 1);
  for (int i = 0; i < kClasses; ++i) {
    CHECK_EQ(size_class(class_bytes(i)), i);
    CHECK_EQ(class_bytes(i) % 64, 0u);
    if (i > 0) CHECK_EQ(size_class(class_bytes(i - 1) + 1), i);
  }
}

int main(int argc, char** argv) { return check::main(argc, argv); }
