/* abi_layout.c - prints what a compiler makes of ral/plugin.h and ral/trace_format.h, as JSON.
 *
 * abi_names.inc, written by dump.py from the same headers, lists the names: STRUCT_BEGIN, MEMBER and STRUCT_END
 * for each struct, CONSTANT for each enumerator and macro with a value. */
#include <ral/plugin.h>
#include <ral/trace_format.h>

#include <stddef.h>
#include <stdio.h>

static const char* separator = "";

static void begin(const char* name, size_t size) {
  printf("%s\n\"%s\": {\"size\": %zu, \"members\": [", separator, name, size);
  separator = "";
}

static void member(const char* name, size_t offset, size_t size) {
  printf("%s\n  [\"%s\", %zu, %zu]", separator, name, offset, size);
  separator = ",";
}

static void constant(const char* name, unsigned long long value) {
  printf("%s\n\"%s\": %llu", separator, name, value);
  separator = ",";
}

int main(void) {
#define STRUCT_BEGIN(type, label) begin(label, sizeof(type));
#define MEMBER(type, path) member(#path, offsetof(type, path), sizeof(((type*)0)->path));
#define STRUCT_END \
  printf("]}");    \
  separator = ",";
#define CONSTANT(name)
  printf("{\"structs\": {");
#include "abi_names.inc"
  printf("},\n\"constants\": {");
  separator = "";
#undef STRUCT_BEGIN
#undef MEMBER
#undef STRUCT_END
#undef CONSTANT
#define STRUCT_BEGIN(type, label)
#define MEMBER(type, path)
#define STRUCT_END
#define CONSTANT(name) constant(#name, (unsigned long long)(name));
#include "abi_names.inc"
  printf("}}\n");
  return 0;
}
