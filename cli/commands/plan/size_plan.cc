#include "cli/commands/plan/size_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cli/chart/plan_drawing.h"
#include "cli/commands/run/run_settings.h"
#include "cli/config/load.h"
#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "heuristics/cost/cost.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/pure/swap_plan.h"
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
  const auto* observed = record.as<core::record::Observed>();
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

namespace {

using heuristics::Goal;
using heuristics::StepTimePoint;

constexpr double kUnknownSamples = 1e6;   // of a job that does not say how many
constexpr std::uint32_t kMaxBatches = 9;  // compared for each size

struct Job {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  heuristics::BatchRule batch;
  std::uint64_t base_batch = 0;
  std::vector<heuristics::HostView> hosts;
};

Job job_of_plan(const RunPlan& plan) {
  const core::RunSettings& settings = plan.settings;
  Job job{settings.min_workers, settings.max_workers, settings.batch, core::base_batch(settings), {}};
  for (const auto& host : plan.worker_hosts) job.hosts.push_back({.name = host.name, .slots = host.slots});
  return job;
}

Job job_of_view(const heuristics::ClusterView& view) {
  const auto& seen = view.jobs.front();
  const std::uint32_t max = seen.reachable == 0 ? seen.max_workers : std::min(seen.max_workers, seen.reachable);
  return {seen.min_workers, max, seen.batch, seen.base_batch, view.hosts};
}

// From a table alone: its sizes, and the batch with the most rows.
Job job_of_points(const std::vector<StepTimePoint>& points) {
  Job job{points.front().workers, points.back().workers, {}, 0, {}};
  std::map<std::uint32_t, std::size_t> counts;
  for (const auto& point : points) ++counts[static_cast<std::uint32_t>(point.local_batch)];
  const auto max =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  job.batch.per_worker = max->first;
  job.base_batch = std::uint64_t{job.min} * max->first;
  return job;
}

Job job_of(const JobProfile& profile, const RunConfig& config, const std::optional<RunPlan>& plan) {
  Job job = plan                ? job_of_plan(*plan)
            : profile.last_view ? job_of_view(*profile.last_view)
                                : job_of_points(profile.measured.points());
  job.max = std::max(job.min, std::min(job.max, heuristics::max_workers(job.batch)));
  if (job.hosts.empty() && profile.last_view) job.hosts = profile.last_view->hosts;
  const policy::ObserverSettings prices = observer_settings(config, {});
  for (auto& host : job.hosts) {
    if (const double price = policy::price_of(prices, host.name); price > 0) host.price_per_worker_hour = price;
    host.free_slots = host.slots;
    host.leaving = false;
  }
  return job;
}

double samples_of(const JobProfile& profile, const RunConfig& config) {
  if (config.policy.samples_total > 0) return static_cast<double>(config.policy.samples_total);
  if (profile.last_view && profile.last_view->jobs.front().samples_total > 0)
    return profile.last_view->jobs.front().samples_total;
  const bool is_generated = config.use_trainer && config.trainer.train.empty();
  return is_generated ? static_cast<double>(config.trainer.samples) * static_cast<double>(config.trainer.epochs) : 0;
}

// Without the noise scale a larger batch would look free, so only the user's batch is compared.
std::vector<std::uint32_t> batches_of(const Job& job, const heuristics::Parameters& settings,
                                      const std::vector<StepTimePoint>& points, bool knows_noise, SizePlan& plan) {
  std::set<std::uint32_t> seen{job.batch.per_worker};
  for (const auto& point : points) seen.insert(static_cast<std::uint32_t>(point.local_batch));
  const bool vary = heuristics::flag(settings, "vary_batch");
  if (!knows_noise) {
    if (vary || (seen.size() > 1 && job.batch.max_global == 0)) {
      plan.notes.push_back("Only the batch of " + std::to_string(job.batch.per_worker) +
                           " is compared: the cost of a larger one in samples is not known (--noise-scale).");
    }
    return {job.batch.per_worker};
  }
  const std::uint32_t min = heuristics::whole(settings, "min_per_worker");
  if (vary)
    return heuristics::geometric_sizes(min, std::max(min, heuristics::whole(settings, "max_per_worker")), kMaxBatches);
  return {seen.begin(), seen.end()};
}

// A given noise scale replaces the measured noise.
std::optional<heuristics::EpochsModel> epochs_of(const Job& job, const heuristics::Parameters& settings,
                                                 const JobProfile& profile, SizePlan& plan) {
  const heuristics::StatisticsRule rule{heuristics::epochs_form_of(heuristics::text(settings, "epochs")),
                                        heuristics::number(settings, "theta")};
  const auto batch = static_cast<double>(job.base_batch);
  const auto given = plan.noise_scale;
  if (!given) plan.noise_scale = profile.measured.noise_scale();
  if (rule.form == heuristics::EpochsForm::kNoise) {
    if (!plan.noise_scale) return std::nullopt;
    return heuristics::EpochsModel::from_noise(*plan.noise_scale, batch, 1);
  }
  plan.base_batch = job.base_batch;
  auto noise = profile.measured.sgd_noise();
  if (given && batch > 0) {
    const double local = job.batch.per_worker;
    noise = heuristics::expected_sgd_noise(*given, local, batch / local) * std::sqrt(batch);
  }
  if (!noise || !(batch > 0)) return std::nullopt;
  plan.sgd_noise = *noise / std::sqrt(batch);
  return heuristics::EpochsModel::from_sgd_noise(*noise, rule.theta, batch, 1);
}

Result<heuristics::PlanGoal> goal_of(const heuristics::Parameters& settings, double samples) {
  heuristics::PlanGoal goal;
  goal.goal = *heuristics::goal_of(heuristics::text(settings, "goal"));
  goal.limit = heuristics::number(settings, goal.goal == Goal::kBudget ? "budget" : "deadline_s");
  const bool bounded = goal.goal == Goal::kDeadline || goal.goal == Goal::kBudget;
  if (!bounded || samples > 0) return goal;
  return Error{ErrorCode::kInvalid,
               "a deadline or a budget needs the length of the job: give --samples N, or "
               "policy.samples_total in the config"};
}

Status check_sizes(const std::vector<StepTimePoint>& points, const Job& job, bool universal) {
  if (universal || job.min == job.max || points.front().workers != points.back().workers) return {};
  const std::uint32_t only = points.front().workers;
  return Error{ErrorCode::kUnavailable,
               "only one size was measured, " + core::counted(only, "worker") +
                   ": a plan needs two or more. A run with another policy than \"fixed\" "
                   "measures them, and so does plan without --journal; --search universal estimates from one"};
}

heuristics::PriceRule prices_of(const Job& job, const RunConfig& config, const heuristics::Parameters& settings,
                                SizePlan& plan) {
  const bool priced =
      config.cost.price_per_worker_hour > 0 ||
      std::any_of(job.hosts.begin(), job.hosts.end(), [](const auto& host) { return host.price_per_worker_hour > 0; });
  if (!priced) plan.notes.emplace_back("Cost is in worker-hours: [cost] sets no price.");
  const double standard = config.cost.price_per_worker_hour > 0 ? config.cost.price_per_worker_hour
                          : priced                              ? heuristics::number(settings, "price_per_worker_hour")
                                                                : 1;
  heuristics::PriceRule rule;
  rule.form =
      heuristics::text(settings, "price") == "memory" ? heuristics::PriceForm::kMemory : heuristics::PriceForm::kFlat;
  rule.base_local_batch = job.batch.per_worker;
  rule.per_s = [all = heuristics::Prices(job.hosts, {}, standard)](std::uint32_t workers) {
    return all.per_s(workers);
  };
  return rule;
}

// "3, 5 to 7"
std::string ranges_text(const std::vector<std::uint32_t>& sizes) {
  std::string text;
  for (std::size_t first = 0, next = 0; first < sizes.size(); first = next) {
    for (next = first + 1; next < sizes.size() && sizes[next] == sizes[next - 1] + 1;) ++next;
    text += (text.empty() ? "" : ", ") + std::to_string(sizes[first]);
    if (next - first > 1) text += (next - first > 2 ? " to " : ", ") + std::to_string(sizes[next - 1]);
  }
  return text;
}

std::string unmeasured_text(const Job& job, const std::vector<StepTimePoint>& points) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t size = job.min; size <= job.max; ++size) {
    const auto is_size = [&](const StepTimePoint& point) { return point.workers == size; };
    if (std::none_of(points.begin(), points.end(), is_size)) missing.push_back(size);
  }
  return missing.empty() ? "" : "Not measured: " + ranges_text(missing) + " workers; their steps are predicted.";
}

}  // namespace

Result<SizePlan> make_size_plan(const JobProfile& profile, const RunConfig& config, const std::optional<RunPlan>& plan,
                                std::optional<double> noise_scale) {
  const heuristics::Parameters settings = policy_parameters(config.policy, "scavenger");
  const std::vector<StepTimePoint> points = profile.measured.points();
  const bool universal = heuristics::text(settings, "search") == "universal";
  if (points.empty()) {
    return Error{ErrorCode::kUnavailable, "nothing was measured: no size ran beyond its warm-up steps"};
  }
  const Job job = job_of(profile, config, plan);
  if (const Status enough = check_sizes(points, job, universal); !enough.ok()) return enough.error();
  const double samples = samples_of(profile, config);
  const auto goal = goal_of(settings, samples);
  if (!goal.ok()) return goal.error();

  SizePlan result;
  for (const auto& point : points) {
    const auto batch = static_cast<std::uint32_t>(point.local_batch);
    result.measured.push_back({point, profile.measured.steps_at({point.workers, batch})});
  }
  if (heuristics::text(settings, "search") == "full") {
    const std::string missing = unmeasured_text(job, points);
    if (!missing.empty()) result.notes.push_back(missing);
  }
  result.noise_scale = noise_scale ? noise_scale : profile.noise_scale;
  const auto epochs = epochs_of(job, settings, profile, result);
  if (samples <= 0) result.notes.emplace_back("Time and cost are for one million samples (--samples).");
  const auto space =
      heuristics::compared_space(job.min, job.max, batches_of(job, settings, points, epochs.has_value(), result));
  const auto model = heuristics::fit_step_times(heuristics::step_time_form_of(heuristics::text(settings, "model")),
                                                points, universal, space, heuristics::workers_per_host(job.hosts));
  const auto work = heuristics::work_of(samples > 0 ? samples : kUnknownSamples, job.batch, epochs);
  const auto candidates = heuristics::kept_to_limit(job.batch, heuristics::allowed_points(space));
  result.curve = heuristics::plan_curve(
      heuristics::plan_points(candidates, *model, work, prices_of(job, config, settings, result), points), *goal, "");
  return result;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

bool has_limit(heuristics::Goal goal) {
  return goal == heuristics::Goal::kDeadline || goal == heuristics::Goal::kBudget;
}

OrderedJson json_of(const heuristics::PlanCurve& curve, std::size_t index) {
  const heuristics::PlanPoint& point = curve.points[index];
  return {{"workers", point.workers},      {"batch", point.local_batch}, {"step_s", point.step_s},
          {"seconds", point.seconds},      {"cost", point.cost},         {"measured", point.measured},
          {"is", plan_marks(curve, index)}};
}

}  // namespace

std::string render_plan(const SizePlan& plan, std::size_t columns, bool unicode) {
  Table table({{"workers", Align::kRight},
               {"batch of each", Align::kRight},
               {"step", Align::kRight},
               {"steps measured", Align::kRight}});
  for (const auto& [point, steps] : plan.measured) {
    table.add_row({std::to_string(point.workers), format_number(point.local_batch, 0), format_duration(point.seconds),
                   format_number(steps, 0)});
  }
  std::string text = plan_text(plan.curve, columns, unicode) + "\n" + table.render();
  if (plan.noise_scale) {
    text += "\nThe gradients' noise scale is " + format_count(*plan.noise_scale) +
            " samples: a global batch of about that size is efficient.\n";
  }
  if (plan.sgd_noise) {
    text += "\nThe gradients' SGD noise is " + format_number(*plan.sgd_noise, 2) + " with a global batch of " +
            std::to_string(plan.base_batch) + " samples.\n";
  }
  for (const auto& note : plan.notes) text += "\n" + note;
  return plan.notes.empty() ? text : text + "\n";
}

std::string render_plan_json(const SizePlan& plan) {
  const heuristics::PlanCurve& curve = plan.curve;
  OrderedJson json;
  json["goal"] = heuristics::goal_names()[static_cast<std::size_t>(curve.goal.goal)];
  if (has_limit(curve.goal.goal)) {
    json["limit"] = curve.goal.limit;
    json["limit_met"] = curve.choice.limit_met;
  }
  json["choice"] = curve.choice.point ? json_of(curve, *curve.choice.point) : OrderedJson();
  json["reason"] = curve.choice.reason.text;
  json["points"] = OrderedJson::array();
  for (std::size_t i = 0; i < curve.points.size(); ++i) json["points"].push_back(json_of(curve, i));
  json["measured"] = OrderedJson::array();
  for (const auto& [point, steps] : plan.measured) {
    json["measured"].push_back({{"workers", point.workers},
                                {"batch", std::llround(point.local_batch)},
                                {"step_s", point.seconds},
                                {"steps", steps}});
  }
  if (plan.noise_scale) json["noise_scale"] = *plan.noise_scale;
  if (plan.sgd_noise) json["sgd_noise"] = *plan.sgd_noise;
  json["notes"] = plan.notes;
  return json_text(json) + "\n";
}

}  // namespace elastictrain::cli
