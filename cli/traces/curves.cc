#include "cli/traces/curves.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "cli/config/text.h"
#include "cli/traces/rows.h"
#include "cli/traces/traces.h"
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

namespace {

namespace fs = std::filesystem;
using heuristics::sharing::Curve;

constexpr std::uint32_t kGpusOfHost = 4;
constexpr std::uint32_t kMostPlaced = 16;  // GPUs of placements.csv
// The authors' limit for the one model of which larger batches were measured than fit beside its data.
constexpr std::uint32_t kMostLocalOfYolo = 8;

struct Step {
  double step_s = 0, sync_s = 0;
};
using Steps = std::map<std::uint32_t, Step>;  // by local batch

struct Model {
  std::string name;
  std::map<std::uint32_t, Steps> steps;        // by GPUs, on the fewest hosts
  std::map<std::string, Steps> placements;     // all, by the GPUs on each host: "22", "31"
  std::map<std::uint32_t, double> iterations;  // to the end, by global batch
};

std::string packed(std::uint32_t gpus) {
  const std::uint32_t rest = gpus % kGpusOfHost;
  return (rest > 0 ? std::to_string(rest) : "") + std::string(gpus / kGpusOfHost, '0' + kGpusOfHost);
}

// 0: it is none.
std::uint32_t gpus_in(const std::string& placement) {
  std::uint32_t gpus = 0;
  for (const char on_host : placement) {
    if (on_host < '1' || on_host > '9') return 0;
    gpus += static_cast<std::uint32_t>(on_host - '0');
  }
  return gpus;
}

template <class Use>
Status each_row(const fs::path& path, Use use) {
  const auto text = read_bounded(path.string());
  if (!text.ok()) return text.error();
  Rows rows(path.string(), *text, ',', true);
  while (rows.next()) use(rows);
  return rows.failed() ? Status(rows.error()) : Status();
}

Step step_in(Rows& rows) {
  return {rows.positive("step_time"), rows.number("sync_time")};
}

Status read_placements(const fs::path& folder, Model& model) {
  std::map<std::string, std::uint32_t> gpus_of;
  for (std::uint32_t gpus = 1; gpus <= kMostPlaced; ++gpus) gpus_of[packed(gpus)] = gpus;
  return each_row(folder / "placements.csv", [&](Rows& rows) {
    const std::string placement = rows.text("placement");
    const auto found = gpus_of.find(placement);
    const std::uint32_t local = rows.slots("local_bsz");
    const Step step = step_in(rows);
    if (found != gpus_of.end()) model.steps[found->second][local] = step;
    if (gpus_in(placement) > 0) model.placements[placement][local] = step;
  });
}

Status read_scalability(const fs::path& folder, Model& model) {
  std::map<std::uint32_t, std::uint32_t> hosts_of;
  return each_row(folder / "scalability.csv", [&](Rows& rows) {
    const std::uint32_t gpus = rows.slots("num_replicas"), hosts = rows.slots("num_nodes");
    const std::uint32_t local = rows.slots("local_bsz");
    const Step step = step_in(rows);
    if (gpus <= kMostPlaced || hosts < hosts_of[gpus]) return;
    if (hosts > hosts_of[gpus]) model.steps[gpus].clear();
    hosts_of[gpus] = hosts;
    model.steps[gpus][local] = step;
  });
}

Status read_validations(const fs::path& folder, Model& model) {
  constexpr std::string_view kPrefix = "validation-";
  const auto files = entries_of(folder);
  if (!files.ok()) return files.error();
  for (const fs::path& file : *files) {
    const std::string name = file.stem().string();
    if (!name.starts_with(kPrefix)) continue;
    const auto batch = parse_whole_number(name.substr(kPrefix.size()));
    if (!batch || *batch == 0 || *batch > UINT32_MAX) {
      return Error{ErrorCode::kInvalid, file.string() + ":1:1: its name must end in a global batch"};
    }
    double last = 0;
    const Status good = each_row(file, [&](Rows& rows) { last = rows.positive("iteration"); });
    if (!good.ok()) return good;
    if (last == 0) return Error{ErrorCode::kInvalid, file.string() + ":1:1: it has no epoch"};
    model.iterations[static_cast<std::uint32_t>(*batch)] = last;
  }
  return {};
}

// A line between measured batches.
Step step_at(const Steps& steps, std::uint32_t local) {
  const auto above = steps.lower_bound(local);
  if (above == steps.end()) return steps.rbegin()->second;
  if (above->first == local) return above->second;
  const auto below = std::prev(above);
  const double part = static_cast<double>(local - below->first) / static_cast<double>(above->first - below->first);
  return {std::lerp(below->second.step_s, above->second.step_s, part),
          std::lerp(below->second.sync_s, above->second.sync_s, part)};
}

std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

// Seconds of a step; nothing: too few samples for each.
std::optional<double> step_s(const Model& model, const Steps& steps, std::uint32_t gpus, std::uint32_t batch) {
  const std::uint32_t measured = steps.rbegin()->first;
  const std::uint32_t most = model.name == "yolov3" ? std::min(measured, kMostLocalOfYolo) : measured;
  const std::uint32_t local = divide_up(batch, gpus);
  if (local < steps.begin()->first) return std::nullopt;
  const std::uint32_t parts = divide_up(local, most);
  const Step step = step_at(steps, std::max(divide_up(local, parts), steps.begin()->first));
  return step.step_s + (parts - 1) * (step.step_s - step.sync_s);
}

// Rates by GPUs and hosts. Of several ways to spread the same GPUs over as many hosts the fastest counts.
using Spread = std::map<std::uint32_t, std::map<std::uint32_t, double>>;

void add_spread(const Model& model, std::uint32_t batch, double iterations, Spread& spread) {
  for (const auto& [placement, steps] : model.placements) {
    const std::uint32_t gpus = gpus_in(placement);
    const auto seconds = step_s(model, steps, gpus, batch);
    if (!seconds) continue;
    double& rate = spread[gpus][static_cast<std::uint32_t>(placement.size())];
    rate = std::max(rate, 1 / *seconds / iterations);
  }
}

// As parts of the rates of a curve.
Spread parts_of(Spread spread, const std::vector<Curve::Point>& points) {
  Spread parts;
  for (const Curve::Point& point : points) {
    for (const auto& [hosts, rate] : spread[point.slots]) parts[point.slots][hosts] = rate / point.rate;
  }
  return parts;
}

void add_curves(const Model& model, Curves& curves) {
  std::map<std::uint32_t, double> adapted;
  Spread adapted_spread;
  for (const auto& [batch, iterations] : model.iterations) {
    std::vector<Curve::Point> points;
    Spread spread;
    add_spread(model, batch, iterations, spread);
    add_spread(model, batch, iterations, adapted_spread);
    for (const auto& [gpus, steps] : model.steps) {
      const auto seconds = step_s(model, steps, gpus, batch);
      if (!seconds) continue;
      points.push_back({gpus, 1 / *seconds / iterations});
      adapted[gpus] = std::max(adapted[gpus], points.back().rate);
    }
    const std::string name = pollux_curve(model.name, std::to_string(batch));
    auto parts = parts_of(std::move(spread), points);
    if (!points.empty()) curves[name] = std::make_shared<const Curve>(std::move(points), name, std::move(parts));
  }
  std::vector<Curve::Point> points;
  for (const auto& [gpus, rate] : adapted) points.push_back({gpus, rate});
  const std::string name = pollux_curve(model.name, kAdapted);
  auto parts = parts_of(std::move(adapted_spread), points);
  if (!points.empty()) curves[name] = std::make_shared<const Curve>(std::move(points), name, std::move(parts));
}

// A folder without permission may be one; that it cannot be read is said where it is read.
bool is_model(const fs::path& folder) {
  std::error_code failed;
  return fs::exists(folder / "placements.csv", failed) || failed == std::errc::permission_denied;
}

}  // namespace

std::string pollux_curve(const std::string& model, const std::string& batch) {
  return "jobs of " + model + "@" + batch;
}

bool is_pollux_directory(const std::string& path) {
  const auto entries = entries_of(path);
  return entries.ok() && std::any_of(entries->begin(), entries->end(), is_model);
}

Status read_pollux_curves(const std::string& path, Curves& curves) {
  const auto entries = entries_of(path);
  if (!entries.ok()) return entries.error();
  for (const fs::path& folder : *entries) {
    if (!is_model(folder)) continue;
    Model model{folder.filename().string(), {}, {}};
    if (const Status good = read_placements(folder, model); !good.ok()) return good;
    if (const Status good = read_scalability(folder, model); !good.ok()) return good;
    if (const Status good = read_validations(folder, model); !good.ok()) return good;
    add_curves(model, curves);
  }
  return {};
}

}  // namespace elastictrain::cli
