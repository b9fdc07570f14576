#include "heuristics/scavenger/job_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace elastictrain::heuristics {
namespace {

constexpr double kKnownNoise = 0.3;      // relative error below which the noise scale is used
constexpr double kKnownSgdNoise = 50;    // steps, as the window that it is measured over
constexpr std::uint32_t kMaxSizes = 64;  // sizes compared at most

}  // namespace

void StepMeasurements::add(const JobView& job, double window_steps) {
  noise_.add(job.norms);
  if (job.norms.count > 0 && job.norms.global_batch > job.norms.local_batch) {
    NoiseByBatch& measured = job.norms.workers == 1 ? sgd_noise_alone_ : sgd_noise_;
    BatchNoise& seen = measured[static_cast<std::uint64_t>(std::llround(job.norms.global_batch))];
    seen.steps += static_cast<double>(job.norms.count);
    seen.gamma.add(job.norms);
  }
  for (const auto& interval : job.intervals) {
    if (interval.warm_up || interval.steps == 0 || interval.workers == 0 || !(interval.seconds() > 0)) continue;
    auto& measured =
        measured_[{interval.workers, static_cast<std::uint32_t>(interval.global_batch / interval.workers)}];
    const auto steps = static_cast<double>(interval.steps);
    measured.steps += steps;
    const double window = window_steps > 0 ? std::min(measured.steps, window_steps) : measured.steps;
    measured.step_s += std::min(1.0, steps / window) * (interval.seconds() / steps - measured.step_s);
  }
}

void StepMeasurements::add(const StepTimePoint& point, double steps) {
  auto& measured = measured_[{point.workers, static_cast<std::uint32_t>(point.local_batch)}];
  measured.steps += steps;
  measured.step_s += steps / measured.steps * (point.seconds - measured.step_s);
}

double StepMeasurements::steps_at(const SearchPoint& point) const {
  const auto found = measured_.find({point.workers, point.local_batch});
  return found == measured_.end() ? 0 : found->second.steps;
}

double StepMeasurements::step_s(const SearchPoint& point) const {
  const auto found = measured_.find({point.workers, point.local_batch});
  return found == measured_.end() ? 0 : found->second.step_s;
}

std::vector<StepTimePoint> StepMeasurements::points() const {
  std::vector<StepTimePoint> points;
  for (const auto& [key, measured] : measured_)
    points.push_back({key.first, static_cast<double>(key.second), measured.step_s});
  return points;
}

std::optional<double> StepMeasurements::noise_scale() const {
  return noise_.relative_error().value_or(1) <= kKnownNoise ? noise_.value() : std::nullopt;
}

// Gamma grows with the workers. The two halves of one would pull the mean down in a run that has had more.
std::optional<double> StepMeasurements::sgd_noise() const {
  const auto several = mean_sgd_noise(sgd_noise_);
  return several ? several : mean_sgd_noise(sgd_noise_alone_);
}

std::optional<double> StepMeasurements::mean_sgd_noise(const NoiseByBatch& measured) {
  double steps = 0;
  double sum = 0;
  for (const auto& [batch, noise] : measured) {
    const double gamma = noise.gamma.value().value_or(0);
    steps += noise.steps;
    sum += noise.steps * gamma * std::sqrt(static_cast<double>(batch));
  }
  return steps >= kKnownSgdNoise && sum > 0 ? std::optional(sum / steps) : std::nullopt;
}

std::optional<EpochsModel> StepMeasurements::epochs(const StatisticsRule& rule, std::uint64_t base_batch) const {
  const auto known_batch = static_cast<double>(base_batch);
  if (rule.form == EpochsForm::kPaper) {
    const auto noise = sgd_noise();
    return noise ? EpochsModel::from_sgd_noise(*noise, rule.theta, known_batch, 1) : std::nullopt;
  }
  const auto noise = noise_scale();
  return noise ? std::optional(EpochsModel::from_noise(*noise, known_batch, 1)) : std::nullopt;
}

SearchPoint kept_to_limit(const BatchRule& rule, const SearchPoint& point) {
  BatchRule own = rule;
  own.per_worker = point.local_batch;
  const std::uint32_t workers = std::max(point.workers, 1U);
  return {point.workers, static_cast<std::uint32_t>(global_batch(own, point.workers) / workers)};
}

std::vector<SearchPoint> kept_to_limit(const BatchRule& rule, const std::vector<SearchPoint>& points) {
  std::vector<SearchPoint> result;
  for (const auto& target : points) {
    const SearchPoint point = kept_to_limit(rule, target);
    if (point.local_batch > 0 && std::find(result.begin(), result.end(), point) == result.end())
      result.push_back(point);
  }
  return result;
}

SearchSpace compared_space(std::uint32_t min, std::uint32_t max, std::vector<std::uint32_t> local_batches) {
  SearchSpace space{{}, std::move(local_batches), 0};
  if (max - min >= kMaxSizes) {
    space.workers = geometric_sizes(min, max, kMaxSizes);
  } else {
    for (auto size = min; size <= max; ++size) space.workers.push_back(size);
  }
  return space;
}

std::optional<StepTimeModel> fit_step_times(StepTimeForm form, std::vector<StepTimePoint> points, bool universal,
                                            const SearchSpace& space, std::uint32_t workers_per_host) {
  if (universal && points.size() == 1) points = universal_points(space, points.front());
  return StepTimeModel::fit(form, points, workers_per_host);
}

std::uint32_t workers_per_host(const std::vector<HostView>& hosts) {
  std::uint32_t max = 1;
  for (const auto& host : hosts) max = std::max(max, host.slots);
  return max;
}

PlanWork work_of(double samples, const BatchRule& batch, const std::optional<EpochsModel>& epochs) {
  PlanWork work;
  work.batch = batch;
  work.samples_per_epoch = std::max(0.0, samples);
  if (epochs) work.epochs = *epochs;
  return work;
}

const std::vector<std::string>& search_names() {
  static const std::vector<std::string> kNames{"full", "partial", "universal"};
  return kNames;
}

const std::vector<std::string>& step_time_form_names() {
  static const std::vector<std::string> kNames{"components", "paper", "paper-global"};
  return kNames;
}

const std::vector<std::string>& epochs_form_names() {
  static const std::vector<std::string> kNames{"noise-scale", "sgd-noise"};
  return kNames;
}

SearchMode search_of(const std::string& name) {
  if (name == "full") return SearchMode::kFull;
  return name == "universal" ? SearchMode::kUniversal : SearchMode::kPartial;
}

StepTimeForm step_time_form_of(const std::string& name) {
  if (name == "paper") return StepTimeForm::kPaperPerWorker;
  return name == "paper-global" ? StepTimeForm::kPaperGlobal : StepTimeForm::kComponents;
}

EpochsForm epochs_form_of(const std::string& name) {
  return name == "sgd-noise" ? EpochsForm::kPaper : EpochsForm::kNoise;
}

}  // namespace elastictrain::heuristics
