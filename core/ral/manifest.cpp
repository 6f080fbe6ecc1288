// Reading a manifest: parse, validate each entry on its own, convert.
#include "manifest.h"

#include <algorithm>

#include "json.h"
#include "json_schema.h"
#include "ral/kernel_router.h"
#include "ral/status.h"

namespace ral {

const char* manifest_schema() noexcept {
  static const char kText[] =
#include "manifest_schema.inc"
      ;
  return kText;
}

namespace {

const json::Value& schema() {
  static const json::Value* const parsed = [] {
    auto* value = new json::Value;
    std::string problem;
    if (!json::parse(manifest_schema(), value, &problem))
      throw Error(RAL_ERROR_INTERNAL, "kernel_manifest.schema.json: " + problem);
    return value;
  }();
  return *parsed;
}

const json::Value& entry_schema() { return *schema().find("properties")->find("kernels")->find("items"); }

std::string join(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "; ") + line;
  return out;
}

std::string stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.find('.');
  return dot == 0 || dot == std::string::npos ? name : name.substr(0, dot);
}

bool climbs(const std::string& path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (path.compare(at, end - at, "..") == 0) return true;
    at = end + 1;
  }
  return false;
}

// "" or what is wrong beyond the schema.
std::string convert(const json::Value& value, const std::string& folder, ManifestEntry* out) {
  const auto text = [&value](const char* name) {
    const json::Value* member = value.find(name);
    return member ? member->string : std::string();
  };
  out->op_name = text("op_name");
  out->dialect = text("dialect");
  const std::string path = text("kernel_path");
  // Plugins take C texts: what follows a NUL would be checked here and not be there.
  if (path.find('\0') != std::string::npos)
    return "kernel_path " + json::quote(json::cut(path, 60)) + " has a NUL character";
  if (path.back() == '/') return "kernel_path " + json::quote(json::cut(path, 60)) + " names no file";
  if (climbs(path)) return "kernel_path " + json::quote(path) + " leaves the manifest's folder";
  out->path = path[0] == '/' ? path : folder + "/" + path;
  out->symbol = text("symbol");
  if (out->symbol.find('\0') != std::string::npos) return "symbol has a NUL character";
  if (out->dialect.find('\0') != std::string::npos) return "dialect has a NUL character";
  if (out->symbol.empty()) out->symbol = stem(path);
  for (const json::Value& name : value.find("supported_dtypes")->items) {
    ral_dtype dtype = 0;
    if (dtype_from_name(name.string, &dtype)) out->dtype_mask |= 1u << dtype;
  }
  out->min_rank = static_cast<int>(value.find("min_shape_rank")->number);
  out->max_rank = static_cast<int>(value.find("max_shape_rank")->number);
  if (out->min_rank > out->max_rank)
    return "min_shape_rank " + std::to_string(out->min_rank) + " > max_shape_rank " + std::to_string(out->max_rank);
  out->requires_contiguous = value.find("requires_contiguous")->boolean;
  if (const json::Value* most = value.find("max_elements")) out->max_elements = static_cast<int64_t>(most->number);
  if (const json::Value* cost = value.find("cost")) out->cost = cost->number;
  return "";
}

}  // namespace

bool read_manifest(const std::string& text, const std::string& folder, std::vector<ManifestEntry>* entries,
                   std::vector<std::string>* problems) {
  json::Value document;
  std::string problem;
  if (text.size() > (64u << 20)) {
    problems->push_back("larger than 64 MiB");
    return false;
  }
  if (!json::parse(text, &document, &problem)) {
    problems->push_back("not JSON: " + problem);
    return false;
  }
  const json::Value* kernels = document.find("kernels");
  if (!kernels || !kernels->is(json::Kind::Array)) {
    problems->push_back("no object with an array \"kernels\"");
    return false;
  }
  std::vector<std::string> wrong;
  json::Value head = document;
  head.members["kernels"].items.clear();
  json::validate(head, schema(), "", &wrong);
  if (kernels->items.size() > 16384) wrong.push_back("kernels: more than 16384 items");
  if (!wrong.empty()) {
    problems->push_back(join(wrong));
    return false;
  }
  for (size_t i = 0; i < kernels->items.size(); ++i) {
    const json::Value& item = kernels->items[i];
    ManifestEntry entry;
    wrong.clear();
    json::validate(item, entry_schema(), "", &wrong);
    const json::Value* name = item.find("op_name");
    const std::string title = "kernels[" + std::to_string(i) + "]" +
                              (name && name->is(json::Kind::String) ? " " + json::cut(name->string, 200) : "");
    if (wrong.empty()) {
      const std::string more = convert(item, folder, &entry);
      if (!more.empty()) wrong.push_back(more);
    }
    if (wrong.empty()) {
      entries->push_back(std::move(entry));
    } else {
      for (std::string& line : wrong)
        if (line.compare(0, 2, ": ") == 0) line = line.substr(2);
      problems->push_back(title + ": " + join(wrong));
    }
  }
  return true;
}

}  // namespace ral
