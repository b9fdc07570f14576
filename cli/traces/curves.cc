#include "cli/traces/curves.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "cli/config/text.h"
#include "cli/traces/folder.h"
#include "cli/traces/pollux_tables.h"
#include "cli/traces/rows.h"
#include "cli/traces/source.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

using heuristics::sharing::Curve;
using Points = std::map<std::uint32_t, double>;

constexpr double kMaxCurveSlots = 4096;

void add_curve(Curves& curves, const std::string& name, const Points& points) {
  std::vector<Curve::Point> list;
  for (const auto& [slots, rate] : points) list.push_back({slots, rate});
  curves[name] = std::make_shared<const Curve>(std::move(list), name);
}

Status read_point_rows(Rows& rows, Curves& curves) {
  std::map<std::string, Points> points;
  while (rows.next()) {
    const std::string name = rows.text("curve");
    const std::uint32_t slots = rows.slots("gpus");
    if (slots > kMaxCurveSlots) rows.complain("gpus", "gpus must be at most 4096");
    if (points[name].contains(slots)) rows.complain("gpus", "curve " + name + " has two points at these gpus");
    points[name][slots] = rows.positive("iterations_per_s");
  }
  if (points.empty() && !rows.failed()) rows.complain("curve", "the table has no curve");
  if (rows.failed()) return rows.error();
  for (const auto& [name, list] : points) add_curve(curves, name, list);
  return {};
}

Status read_batch_rows(const std::string& model, Rows& rows, Curves& curves) {
  std::map<std::uint32_t, std::string> columns;
  for (const std::string& name : rows.names()) {
    if (const auto slots = parse_whole_number(name); slots && *slots > 0 && *slots <= kMaxCurveSlots) {
      columns[static_cast<std::uint32_t>(*slots)] = name;
    }
  }
  while (rows.next()) {
    Points points;
    for (const auto& [slots, column] : columns) {
      if (const double rate = rows.number_or_0(column); rate > 0) points[slots] = rate;
    }
    if (points.empty()) rows.complain("global_batch_size", "the curve is empty");
    if (!rows.failed()) add_curve(curves, model + "@" + rows.text("global_batch_size"), points);
  }
  return rows.failed() ? Status(rows.error()) : Status();
}

Status read_curve_file(const std::string& path, Curves& curves) {
  const auto text = read_bounded(path);
  if (!text.ok()) return text.error();
  Rows rows(path, *text, ',', true);
  if (rows.has("curve") && rows.has("gpus") && rows.has("iterations_per_s")) return read_point_rows(rows, curves);
  if (rows.has("global_batch_size")) {
    return read_batch_rows(std::filesystem::path(path).stem().string(), rows, curves);
  }
  return Error{ErrorCode::kInvalid, path +
                                        ":1:1: no table of curves; its columns are either curve,gpus,iterations_per_s "
                                        "or global_batch_size and numbers of GPUs"};
}

// "('ResNet-18 (batch size 16)', 2)" into both parts.
std::optional<std::pair<std::string, std::uint32_t>> gavel_key(const std::string& key) {
  const std::size_t end = key.rfind("', ");
  if (!key.starts_with("('") || end == std::string::npos || !key.ends_with(")")) return std::nullopt;
  const auto slots = parse_whole_number(key.substr(end + 3, key.size() - end - 4));
  if (!slots || *slots == 0 || *slots > kMaxCurveSlots) return std::nullopt;
  return std::pair(key.substr(2, end - 2), static_cast<std::uint32_t>(*slots));
}

Status read_gavel(const std::string& path, Curves& curves) {
  const auto text = read_bounded(path);
  if (!text.ok()) return text.error();
  const auto json = parse_json(*text);
  const auto type = json.find("v100");
  if (!json.is_object() || type == json.end() || !type->is_object()) {
    return Error{ErrorCode::kInvalid, path + ": no object with the throughputs of \"v100\""};
  }
  std::map<std::string, Points> points;
  for (const auto& [key, alone] : type->items()) {
    const auto parts = gavel_key(key);
    if (!parts || !alone.is_object() || !alone.contains("null") || !alone["null"].is_number()) continue;
    const double rate = alone["null"].get<double>();
    if (!(rate >= 0) || rate > kMaxTraceNumber)
      return Error{ErrorCode::kInvalid, path + ": the throughput of " + key + " is not valid"};
    if (rate > 0) points[parts->first][parts->second] = rate;
  }
  for (const auto& [name, list] : points) add_curve(curves, name, list);
  return {};
}

}  // namespace

Status read_curves(const std::string& path, Curves& curves) {
  if (path.ends_with(".json")) return read_gavel(path, curves);
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return read_curve_file(path, curves);
  if (is_pollux_directory(path)) return read_pollux_curves(path, curves);
  const auto entries = entries_of(path);
  if (!entries.ok()) return entries.error();
  bool any = false;
  for (const auto& file : *entries) {
    if (file.extension() != ".csv") continue;
    any = true;
    if (const Status read = read_curve_file(file.string(), curves); !read.ok()) return read;
  }
  if (!any) return Error{ErrorCode::kNoInput, path + ": the directory has no .csv files with curves"};
  return {};
}

}  // namespace elastictrain::cli
