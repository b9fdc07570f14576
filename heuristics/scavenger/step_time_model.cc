#include "heuristics/scavenger/step_time_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

namespace elastictrain::heuristics {
namespace {

// The smallest time that a plane may predict, as a fraction of the smallest measured time.
constexpr double kMinPart = 0.05;

Vector paper_row(StepTimeForm form, double workers, double local_batch) {
  return {1, form == StepTimeForm::kPaperGlobal ? local_batch * workers : local_batch, workers};
}

}  // namespace

std::optional<StepTimeModel> StepTimeModel::fit(StepTimeForm form, const std::vector<StepTimePoint>& points,
                                                std::uint32_t workers_per_host) {
  std::vector<StepTimePoint> good;
  std::copy_if(points.begin(), points.end(), std::back_inserter(good), [](const StepTimePoint& point) {
    return point.workers > 0 && point.local_batch > 0 && point.seconds > 0 && std::isfinite(point.seconds) &&
           std::isfinite(point.local_batch);
  });
  if (good.empty()) return std::nullopt;
  StepTimeModel model;
  model.form_ = form;
  if (form == StepTimeForm::kComponents) {
    model.components_ = std::make_shared<const Components>(good, workers_per_host);
    return model;
  }
  Matrix rows;
  Vector seconds;
  model.min_ = good.front().seconds;
  for (const auto& point : good) {
    rows.push_back(paper_row(form, point.workers, point.local_batch));
    seconds.push_back(point.seconds);
    model.min_ = std::min(model.min_, point.seconds);
  }
  model.coefficients_ = linear_least_squares(rows, seconds, Vector(good.size(), 1));
  return model;
}

double StepTimeModel::seconds(std::uint32_t workers, double local_batch) const {
  if (components_) return components_->seconds(std::max(workers, 1U), std::max(local_batch, 1e-3));
  const Vector row = paper_row(form_, workers, local_batch);
  double seconds = 0;
  for (std::size_t i = 0; i < row.size(); ++i) seconds += coefficients_[i] * row[i];
  return std::max(seconds, kMinPart * min_);
}

namespace {

// Prior deviation of real step times, as logarithms: determined on the T4 tables of Pollux (six models, 1 to 16 hosts).
constexpr double kMeasuringError = 0.05;
constexpr double kBatchDeviation = 0.15;
constexpr double kWorkersDeviation = 0.2;
constexpr double kReach = 0.5;
constexpr double kRestDeviation = 0.05;
constexpr double kRestReach = 0.3;
constexpr std::size_t kStraight = 6;  // unknowns of the form without deviations

Matrix jittered(Matrix covariance, double variance) {
  for (std::size_t i = 0; i < covariance.size(); ++i) covariance[i][i] += variance;
  return covariance;
}

}  // namespace

SmoothDeviation::SmoothDeviation(std::vector<double> places, double deviation, double reach)
    : places_(std::move(places)), deviation_(deviation), reach_(reach), weights_(places_.size()) {
  Matrix all(places_.size(), Vector(places_.size()));
  for (std::size_t i = 0; i < places_.size(); ++i)
    for (std::size_t j = 0; j < places_.size(); ++j) all[i][j] = covariance(places_[i], places_[j]);
  lower_ = cholesky(jittered(std::move(all), 1e-9)).value_or(Matrix(places_.size(), Vector(places_.size())));
}

double SmoothDeviation::covariance(double a, double b) const {
  return deviation_ * deviation_ * std::exp(-std::abs(std::log(a / b)) / reach_);
}

std::size_t SmoothDeviation::index(double place) const {
  return static_cast<std::size_t>(std::lower_bound(places_.begin(), places_.end(), place) - places_.begin());
}

Vector SmoothDeviation::values(const double* unknowns) const {
  Vector values(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) values[i] += lower_[i][j] * unknowns[j];
  return values;
}

void SmoothDeviation::settle(const Vector& values) {
  Matrix all(places_.size(), Vector(places_.size()));
  for (std::size_t i = 0; i < places_.size(); ++i)
    for (std::size_t j = 0; j < places_.size(); ++j) all[i][j] = covariance(places_[i], places_[j]);
  weights_ = solve_positive_definite(jittered(std::move(all), 1e-9), values).value_or(Vector(places_.size()));
}

double SmoothDeviation::at(double place) const {
  double value = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) value += weights_[i] * covariance(place, places_[i]);
  return value;
}

struct StepTimeModel::Components::Straight {
  double fixed_s, per_sample_s, ring_s, per_worker_s, overlap, on_one_host;
};

StepTimeModel::Components::Straight StepTimeModel::Components::straight(const Vector& unknowns) const {
  return {.fixed_s = typical_s_ * std::exp(unknowns[0]),
          .per_sample_s = typical_s_ / typical_batch_ * std::exp(unknowns[1]),
          .ring_s = typical_s_ * std::exp(unknowns[2]),
          .per_worker_s = typical_s_ / 10 * std::exp(unknowns[3]),
          .overlap = 1 + 9 / (1 + std::exp(-unknowns[4])),
          .on_one_host = unknowns[5]};
}

double StepTimeModel::Components::combined(const Straight& straight, double workers, double batch, double u,
                                           double v) const {
  const double compute = (straight.fixed_s + straight.per_sample_s * batch) * std::exp(u);
  if (workers <= 1) return compute;
  const double communicate = (2 * straight.ring_s * (workers - 1) / workers + straight.per_worker_s * (workers - 2)) *
                             std::exp(spread(workers) ? v : straight.on_one_host);
  const double larger = std::max(compute, communicate);
  const double ratio = std::min(compute, communicate) / larger;
  return larger * std::pow(1 + std::pow(ratio, straight.overlap), 1 / straight.overlap);
}

Vector StepTimeModel::Components::residuals(const std::vector<StepTimePoint>& points, const Vector& unknowns) const {
  const Straight form = straight(unknowns);
  const Vector u = of_batch_.values(unknowns.data() + kStraight);
  const Vector v = of_workers_.values(unknowns.data() + kStraight + of_batch_.size());
  Vector all;
  all.reserve(points.size() + unknowns.size());
  for (const auto& point : points) {
    const double workers = point.workers;
    const double of_workers = spread(workers) ? v[of_workers_.index(workers)] : 0;
    const double model = combined(form, workers, point.local_batch, u[of_batch_.index(point.local_batch)], of_workers);
    all.push_back(std::log(model / point.seconds) / kMeasuringError);
  }
  // The prior means, each in units of its deviation; wide.
  for (std::size_t i = 0; i < 4; ++i) all.push_back(0.3 * unknowns[i]);
  all.push_back(0.5 * (unknowns[4] + 1));
  all.push_back(unknowns[5] + 1);
  for (std::size_t i = kStraight; i < unknowns.size(); ++i) all.push_back(unknowns[i]);
  return all;
}

StepTimeModel::Components::Components(const std::vector<StepTimePoint>& points, std::uint32_t workers_per_host)
    : workers_per_host_(std::max(workers_per_host, 1U)), points_(points) {
  std::set<double> batches;
  std::set<double> workers;
  double log_batch = 0;
  double log_s = 0;
  for (const auto& point : points) {
    batches.insert(point.local_batch);
    if (spread(point.workers)) workers.insert(point.workers);
    log_batch += std::log(point.local_batch) / static_cast<double>(points.size());
    log_s += std::log(point.seconds) / static_cast<double>(points.size());
  }
  typical_batch_ = std::exp(log_batch);
  typical_s_ = std::exp(log_s);
  of_batch_ = SmoothDeviation({batches.begin(), batches.end()}, kBatchDeviation, kReach);
  of_workers_ = SmoothDeviation({workers.begin(), workers.end()}, kWorkersDeviation, kReach);

  const std::size_t unknowns = kStraight + of_batch_.size() + of_workers_.size();
  const Bounds bounds{Vector(unknowns, -12), Vector(unknowns, 12)};
  // Starting points: mostly fixed costs, mostly computing, mostly communicating. The first two minima are often not the
  // best.
  const Vector starts[] = {{-1, -1, -1, -2, -1, -1}, {-3, 0, 0, -3, 0, -1}, {-1, -1, -3, -4, 1, -1}};
  double best = INFINITY;
  for (Vector start : starts) {
    start.resize(unknowns);
    const auto found = least_squares([&](const Vector& at) { return residuals(points, at); }, start, bounds, 40);
    if (found.value >= best) continue;
    best = found.value;
    unknowns_ = found.at;
  }
  if (unknowns_.empty()) unknowns_ = Vector(unknowns);
  of_batch_.settle(of_batch_.values(unknowns_.data() + kStraight));
  of_workers_.settle(of_workers_.values(unknowns_.data() + kStraight + of_batch_.size()));
  fit_rest(points);
}

double StepTimeModel::Components::without_rest(double workers, double local_batch) const {
  return combined(straight(unknowns_), workers, local_batch, of_batch_.at(local_batch),
                  spread(workers) ? of_workers_.at(workers) : 0);
}

double StepTimeModel::Components::rest_covariance(double workers, double batch, double other_workers,
                                                  double other_batch) const {
  const double distance = std::abs(std::log(workers / other_workers)) + std::abs(std::log(batch / other_batch));
  return kRestDeviation * kRestDeviation * std::exp(-distance / kRestReach);
}

void StepTimeModel::Components::fit_rest(const std::vector<StepTimePoint>& points) {
  Matrix all(points.size(), Vector(points.size()));
  Vector rest(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    rest[i] = std::log(points[i].seconds / without_rest(points[i].workers, points[i].local_batch));
    for (std::size_t j = 0; j < points.size(); ++j)
      all[i][j] = rest_covariance(points[i].workers, points[i].local_batch, points[j].workers, points[j].local_batch);
  }
  rest_weights_ = solve_positive_definite(jittered(std::move(all), kMeasuringError * kMeasuringError), rest)
                      .value_or(Vector(points.size()));
}

double StepTimeModel::Components::seconds(double workers, double local_batch) const {
  double rest = 0;
  for (std::size_t i = 0; i < points_.size(); ++i)
    rest += rest_weights_[i] * rest_covariance(workers, local_batch, points_[i].workers, points_[i].local_batch);
  return without_rest(workers, local_batch) * std::exp(rest);
}

}  // namespace elastictrain::heuristics
