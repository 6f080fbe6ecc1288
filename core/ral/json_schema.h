// The part of JSON Schema that our schemas use: type, required, properties, items, enum, minimum, maximum, minLength,
// maxLength, minItems, maxItems, uniqueItems, pattern. Other keywords are annotations to it.
#pragma once
#include <string>
#include <vector>

#include "json.h"

namespace ral::json {

// Appends one line a violation, beginning with `where` ("kernels[2].cost: -1 is less than 0").
void validate(const Value& value, const Value& schema, const std::string& where, std::vector<std::string>* problems);

}  // namespace ral::json
