#include "cli/commands/size_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "cli/commands/policy_choice.h"
#include "heuristics/cost/price.h"
#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/pure/text.h"

namespace elastictrain::cli {
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
  for (const auto& host : plan.hosts) job.hosts.push_back({.name = host.name, .slots = host.slots});
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

}  // namespace elastictrain::cli
