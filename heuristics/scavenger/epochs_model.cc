#include "heuristics/scavenger/epochs_model.h"

#include <algorithm>
#include <cmath>

#include "heuristics/fit/least_squares.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kFewest = 0.1;  // of the known epochs, that any batch needs

double regressor(EpochsForm form, double noise, double batch) {
  return form == EpochsForm::kNoise ? batch : noise / std::sqrt(batch);
}

// g of gamma = g / sqrt(B), the mean over the points; 1 unless gamma was measured at each.
double noise_of(const std::vector<EpochsPoint>& points) {
  double sum = 0;
  for (const auto& point : points) {
    if (!(point.sgd_noise > 0)) return 1;
    sum += point.sgd_noise * std::sqrt(point.global_batch);
  }
  return sum / static_cast<double>(points.size());
}

}  // namespace

EpochsModel EpochsModel::from_noise(double noise_scale, double known_batch, double known_epochs) {
  EpochsModel model(known_epochs);
  if (!(noise_scale > 0) || !std::isfinite(noise_scale)) return model;
  model.base_ = known_epochs / (1 + known_batch / noise_scale);
  model.theta_ = model.base_ / noise_scale;
  return model;
}

std::optional<EpochsModel> EpochsModel::from_sgd_noise(double noise, double relative_theta, double known_batch,
                                                       double known_epochs) {
  const double epochs_of_known = 1 + relative_theta * regressor(EpochsForm::kPaper, noise, known_batch);
  if (!(epochs_of_known > 0) || !std::isfinite(epochs_of_known)) return std::nullopt;
  EpochsModel model(known_epochs);
  model.form_ = EpochsForm::kPaper;
  model.noise_ = noise;
  model.base_ = known_epochs / epochs_of_known;
  model.theta_ = relative_theta * model.base_;
  model.min_ = kFewest * known_epochs;
  return model;
}

std::optional<EpochsModel> EpochsModel::fit(EpochsForm form, const std::vector<EpochsPoint>& points) {
  std::vector<EpochsPoint> good;
  std::copy_if(points.begin(), points.end(), std::back_inserter(good),
               [](const EpochsPoint& point) { return point.global_batch > 0 && point.epochs > 0; });
  if (good.empty()) return std::nullopt;
  EpochsModel model(good.front().epochs);
  model.form_ = form;
  model.noise_ = noise_of(good);
  model.min_ =
      std::min_element(good.begin(), good.end(), [](const auto& a, const auto& b) { return a.epochs < b.epochs; })
          ->epochs *
      kFewest;
  const bool one_batch = std::all_of(good.begin(), good.end(), [&](const EpochsPoint& point) {
    return point.global_batch == good.front().global_batch;
  });
  Matrix rows;
  Vector epochs;
  Vector weights;
  for (const auto& point : good) {
    rows.push_back({1});
    if (!one_batch) rows.back().push_back(regressor(form, model.noise_, point.global_batch));
    epochs.push_back(point.epochs);
    weights.push_back(1 / point.epochs);
  }
  Vector found = linear_least_squares(rows, epochs, weights);
  if (form == EpochsForm::kNoise && !one_batch && found[1] < 0) {  // a larger batch never needs fewer samples
    for (auto& row : rows) row.resize(1);
    found = linear_least_squares(rows, epochs, weights);
  }
  model.base_ = found[0];
  model.theta_ = found.size() > 1 ? found[1] : 0;
  return model;
}

double EpochsModel::epochs(double global_batch) const {
  if (!(global_batch > 0)) return std::max(base_, min_);
  return std::max(base_ + theta_ * regressor(form_, noise_, global_batch), min_);
}

}  // namespace elastictrain::heuristics
