#include "heuristics/scavenger/step_time_model.h"

#include <algorithm>
#include <cmath>

#include "heuristics/scavenger/step_components.h"

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

}  // namespace elastictrain::heuristics
