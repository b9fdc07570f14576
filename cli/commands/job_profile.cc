#include "cli/commands/job_profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "cli/config/load.h"
#include "cli/config/text.h"
#include "supervisor/journal_history.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

using Json = nlohmann::json;

constexpr double kMaxWorkers = 100'000;
constexpr double kMaxSamples = 1 << 30;
constexpr double kMaxStep_s = 1e6;
constexpr double kMaxSteps = 1e12;
constexpr std::size_t kMaxPoints = 128;  // the fit's time grows with their cube
constexpr const char* kColumns = "workers,batch,step_s";

struct Row {
  double workers = 0;
  double batch = 0;
  double step_s = 0;
  double steps = 1;

  // The member of that name; null for an unknown name.
  double* find(std::string_view name) {
    if (name == "workers") return &workers;
    if (name == "batch") return &batch;
    if (name == "step_s") return &step_s;
    return name == "steps" ? &steps : nullptr;
  }
};

Error wrong(const std::string& where, const std::string& what) {
  return {ErrorCode::kInvalid, where + ": " + what};
}

bool is_whole(double value, double max) {
  return value >= 1 && value <= max && value == std::floor(value);
}

Status add_row(JobProfile& profile, const Row& row, const std::string& where) {
  if (!is_whole(row.workers, kMaxWorkers)) return wrong(where, "workers must be a whole number from 1 to 100000");
  if (!is_whole(row.batch, kMaxSamples)) return wrong(where, "batch must be the whole number of samples of one worker");
  if (!(row.step_s > 0 && row.step_s <= kMaxStep_s))
    return wrong(where, "step_s must be seconds, more than 0 and at most 1000000");
  if (!(row.steps > 0 && row.steps <= kMaxSteps)) return wrong(where, "steps must be more than 0 and at most 1e12");
  profile.measured.add({static_cast<std::uint32_t>(row.workers), row.batch, row.step_s}, row.steps);
  if (profile.measured.points().size() <= kMaxPoints) return {};
  return wrong(where, "more than " + std::to_string(kMaxPoints) +
                          " different sizes and batches: leave out some, those between others first");
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t from = 0; from <= line.size();) {
    const std::size_t comma = std::min(line.find(',', from), line.size());
    cells.push_back(trim(line.substr(from, comma - from)));
    from = comma + 1;
  }
  return cells;
}

Status check_columns(const std::vector<std::string_view>& names, const std::string& where) {
  for (const std::string_view name : names) {
    if (Row().find(name) != nullptr) continue;
    return wrong(where, "'" + std::string(name) + "' is not a column; the first line names them: " + kColumns +
                            " and, if known, steps");
  }
  for (const char* needed : {"workers", "batch", "step_s"}) {
    if (std::count(names.begin(), names.end(), needed) == 1) continue;
    return wrong(
        where, std::string("there must be exactly one column ") + needed + "; the first line names them: " + kColumns);
  }
  return {};
}

Status add_cells(JobProfile& profile, const std::vector<std::string_view>& names,
                 const std::vector<std::string_view>& cells, const std::string& where) {
  if (cells.size() != names.size()) {
    return wrong(where, std::to_string(cells.size()) + " values for " + std::to_string(names.size()) + " columns");
  }
  Row row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto value = number_of(cells[i]);
    if (!value) return wrong(where, std::string(names[i]) + " '" + std::string(cells[i]) + "' is not a number");
    *row.find(names[i]) = *value;
  }
  return add_row(profile, row, where);
}

Result<JobProfile> profile_of_csv(std::string_view text, const std::string& file_name) {
  JobProfile profile;
  std::vector<std::string_view> names;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string where = file_name + ":" + std::to_string(++number);
    if (line.empty() || line.front() == '#') continue;
    const auto cells = cells_of(line);
    const Status good = names.empty() ? check_columns(cells, where) : add_cells(profile, names, cells, where);
    if (!good.ok()) return good.error();
    if (names.empty()) names = cells;
  }
  return profile;
}

Result<JobProfile> profile_of_json(std::string_view text, const std::string& file_name) {
  const Json given = parse_json(text);
  if (given.is_discarded()) return wrong(file_name, "the file is not valid JSON");
  const Json* list = &given;
  JobProfile profile;
  if (given.is_object()) {
    const auto measured = given.find("measured");
    if (measured == given.end()) return wrong(file_name, "there is no \"measured\", the list of measurements");
    list = &*measured;
    const auto noise = given.find("noise_scale");
    if (noise != given.end() && noise->is_number() && noise->get<double>() > 0) profile.noise_scale = *noise;
  }
  if (!list->is_array()) return wrong(file_name, "the measurements must be a list");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string where = file_name + ": entry " + std::to_string(i + 1);
    if (!(*list)[i].is_object()) return wrong(where, std::string("it must be an object with ") + kColumns);
    Row row;
    for (const auto& [name, value] : (*list)[i].items()) {
      double* member = row.find(name);
      if (member == nullptr) return wrong(where, "there is no '" + name + "'; write " + kColumns);
      if (!value.is_number()) return wrong(where, name + " must be a number");
      *member = value.get<double>();
    }
    if (const Status good = add_row(profile, row, where); !good.ok()) return good.error();
  }
  return profile;
}

}  // namespace

void add_record(JobProfile& profile, const core::Record& record) {
  const auto* observed = std::get_if<core::record::Observed>(&record);
  if (observed == nullptr) return;
  auto view = policy::view_from_json(observed->view.text);
  if (!view.ok() || view->jobs.size() != 1) return;
  profile.measured.add(view->jobs.front());
  profile.last_view = std::move(*view);
}

Result<JobProfile> profile_of_table(std::string_view text, const std::string& file_name) {
  const std::string_view content = trim(text);
  const bool is_json = !content.empty() && (content.front() == '[' || content.front() == '{');
  return is_json ? profile_of_json(content, file_name) : profile_of_csv(text, file_name);
}

Result<JobProfile> read_profile_file(const std::string& path) {
  const auto text = read_config_file(path);
  if (!text.ok()) return text.error();
  return profile_of_table(*text, path);
}

Result<JobProfile> profile_of_journal(const std::string& path) {
  JobProfile profile;
  const auto history = read_journal_history(path, [&](const core::Record& record) { add_record(profile, record); });
  if (!history.ok()) return history.error();
  return profile;
}

}  // namespace elastictrain::cli
