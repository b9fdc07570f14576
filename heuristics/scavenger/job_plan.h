// Purpose: turns a job's views into a plan of its sizes and batches (plan_curve.h): step times by size and batch,
// candidates, prices, and the remaining work. Shared by the policy "scavenger" and by `elastictrain plan`. Pure;
// seconds, samples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "heuristics/noise/noise_scale.h"
#include "heuristics/policy/view.h"
#include "heuristics/scavenger/plan_curve.h"

namespace elastictrain::heuristics {

// How the samples that a job needs follow from its batch: by the gradient noise scale, or by Scavenger's e = e* + theta
// * gamma.
struct StatisticsRule {
  EpochsForm form = EpochsForm::kNoise;
  double theta = 0;  // of kPaper, as a multiple of e*
};

// Step times by workers and samples of each worker, and the gradient noise.
class StepMeasurements {
 public:
  // Means over all steps; with `window_steps`, over the recent ones.
  void add(const JobView& job, double window_steps = 0);
  void add(const StepTimePoint& point, double steps);

  double steps_at(const SearchPoint& point) const;
  double step_s(const SearchPoint& point) const;  // 0: never seen
  std::vector<StepTimePoint> points() const;      // by workers, then by batch
  // In samples; nothing while it is not known well enough for a plan.
  std::optional<double> noise_scale() const;
  // g of gamma = g / sqrt(B), over the recent steps of each batch: of several workers if 50 steps of these were
  // measured, otherwise of a single one, whose two halves stand for two workers; nothing after less than 50 steps of
  // these as well.
  std::optional<double> sgd_noise() const;
  // Of a job that needs one epoch with `base_batch`; nothing while its noise is not known.
  std::optional<EpochsModel> epochs(const StatisticsRule& rule, std::uint64_t base_batch) const;

 private:
  struct Measured {
    double steps = 0;
    double step_s = 0;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Measured> measured_;
  struct BatchNoise {
    double steps = 0;
    SgdNoise gamma;
  };
  using NoiseByBatch = std::map<std::uint64_t, BatchNoise>;  // by global batch
  static std::optional<double> mean_sgd_noise(const NoiseByBatch& measured);
  NoiseScale noise_;
  NoiseByBatch sgd_noise_;  // of several workers
  NoiseByBatch sgd_noise_alone_;
};

// The samples of each worker after applying the user's limit of the global batch.
SearchPoint kept_to_limit(const BatchRule& rule, const SearchPoint& point);
// The same for several points, without duplicates and empty batches.
std::vector<SearchPoint> kept_to_limit(const BatchRule& rule, const std::vector<SearchPoint>& points);

// The compared space: all sizes, or 64 of them; all of the batches.
SearchSpace compared_space(std::uint32_t min, std::uint32_t max, std::vector<std::uint32_t> local_batches);

// With `universal` and a single point, coefficients common to all models predict the rest of `space`. Nothing without a
// point.
std::optional<StepTimeModel> fit_step_times(StepTimeForm form, std::vector<StepTimePoint> points, bool universal,
                                            const SearchSpace& space, std::uint32_t workers_per_host);

// The maximum number of workers that fit on one host.
std::uint32_t workers_per_host(const std::vector<HostView>& hosts);

// The remaining work, in samples at the base batch. A batch that needs more epochs needs that many more samples;
// without `epochs` all need the same.
PlanWork work_of(double samples, const BatchRule& batch, const std::optional<EpochsModel>& epochs);

// The names used in settings: "full", "partial", "universal"; "components", "paper", "paper-global"; "noise-scale",
// "sgd-noise".
const std::vector<std::string>& search_names();
const std::vector<std::string>& step_time_form_names();
SearchMode search_of(const std::string& name);            // one of search_names()
StepTimeForm step_time_form_of(const std::string& name);  // one of step_time_form_names()
const std::vector<std::string>& epochs_form_names();
EpochsForm epochs_form_of(const std::string& name);  // one of epochs_form_names()

}  // namespace elastictrain::heuristics
