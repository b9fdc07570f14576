#include "heuristics/batch/noise_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

constexpr std::uint32_t kGrain = 8;  // larger batches are multiples of it: kernels are optimized for those

struct NoiseBatchSettings {
  std::string mode = "efficiency";
  double efficiency = 0.5;
  double horizon_steps = 1000;
  double max_error = 0.2;
  double hysteresis = 1.25;
  double growth = 2;
  double min_steps = 200;
  bool below_base = false;
  std::uint32_t min_per_worker = 8;
  std::uint32_t max_per_worker = 1024;
  double epoch_samples = 50000;
};

struct State {
  bool began = false;
  NoiseScale scale;
  double changed_at_steps = 0;  // of the job
  std::uint32_t target = 0;     // per worker; 0: nothing yet
  KungFuNoiseAverage average;
  double epoch = 0;  // of the last decision
};

std::uint32_t rounded(double batch) {
  if (batch < kGrain) return static_cast<std::uint32_t>(std::max(batch, 1.0));
  return static_cast<std::uint32_t>(batch / kGrain + 1e-9) * kGrain;
}

class NoiseBatch final : public PerJobPolicy<State> {
 public:
  explicit NoiseBatch(const NoiseBatchSettings& settings) : settings_(settings) {}

 private:
  JobDecision decide_job(const ClusterView&, const JobView& job, State& state, Rng&) const override {
    if (!state.began) {
      state.scale = NoiseScale(settings_.horizon_steps);
      state.epoch = epoch_of(job);
      state.began = true;
    }
    state.scale.add(job.norms);
    state.average.add(job.norms);
    JobDecision decision;
    if (job.workers == 0) {
      decision.reason = {kChanging, "the workers are changing", {}};
    } else if (settings_.mode == "kungfu") {
      kungfu(job, state, decision);
    } else {
      efficiency(job, state, decision);
    }
    if (job.changing && !decision.changes()) decision.reason = {kChanging, "the workers are changing", {}};
    return decision;
  }

  // That the batch is chosen for: a change whose workers still start takes it along.
  static std::uint32_t workers_of(const JobView& job) {
    if (!job.changing) return job.workers;
    return std::max(1U, job.reachable == 0 ? job.target : std::min(job.target, job.reachable));
  }

  double epoch_of(const JobView& job) const { return std::floor(job.samples_done / settings_.epoch_samples); }

  std::uint32_t max(const JobView& job) const {
    const std::uint64_t limit =
        job.batch.max_global == 0 ? settings_.max_per_worker : job.batch.max_global / workers_of(job);
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(limit, 1, settings_.max_per_worker));
  }

  void kungfu(const JobView& job, State& state, JobDecision& decision) const {
    const double value = state.average.value();
    decision.reason = {"same_epoch", format_text("noise over batch %.3g", value), {{"noise_over_batch", value}}};
    if (epoch_of(job) == state.epoch) return;
    state.epoch = epoch_of(job);
    const std::uint32_t now = job.batch.per_worker;
    const std::uint32_t doubled = std::min(2 * now, max(job));
    if (!state.average.has_grown()) {
      decision.reason.code = "noise_not_grown";
      decision.reason.text += " is not above that of the last epoch";
    } else if (doubled <= now) {
      decision.reason.code = "at_limit";
      decision.reason.text += format_text(" has grown, but %u samples per worker is the maximum", now);
    } else {
      decision.per_worker_batch = doubled;
      decision.reason.code = "noise_grew";
      decision.reason.text += format_text(" has grown: %u samples per worker instead of %u", doubled, now);
    }
  }

  void efficiency(const JobView& job, State& state, JobDecision& decision) const {
    const auto scale = state.scale.value();
    const auto error = state.scale.relative_error();
    if (!scale || !error || *error > settings_.max_error) {
      by_bound(job, state, decision);
      return;
    }
    const std::uint32_t now = job.batch.per_worker;
    const std::uint32_t workers = workers_of(job);
    const double share = *scale / (*scale + static_cast<double>(now) * workers);
    decision.reason = {"settled",
                       format_text("noise scale %.3g +- %.0f %%, batch %u x %u: the value of a sample is %.2f", *scale,
                                   100 * *error, workers, now, share),
                       {{"noise_scale", *scale}, {"error", *error}, {"efficiency", share}}};
    const double ratio = ideal(job, *scale) / now;
    const double band = std::max(settings_.hysteresis, 1 + *error);
    if (ratio > band || ratio * band < 1) change(job, target_batch(job, *scale), state, decision);
  }

  // While batches are far smaller than the noise scale, it is not known but for its being larger. A larger batch shows
  // it better.
  void by_bound(const JobView& job, State& state, JobDecision& decision) const {
    const std::uint32_t now = job.batch.per_worker;
    const auto least = state.scale.at_least();
    decision.reason = {"measuring",
                       format_text("the noise scale is not known well enough after %.0f steps", state.scale.steps()),
                       {{"steps", state.scale.steps()}, {"error", state.scale.relative_error().value_or(1)}}};
    if (!least) return;
    decision.reason.text += format_text(", but is at least %.3g", *least);
    decision.reason.numbers.emplace_back("least_noise_scale", *least);
    if (ideal(job, *least) > now * settings_.hysteresis) change(job, target_batch(job, *least), state, decision);
  }

  // The batch of a worker whose samples have the value that is asked for.
  double ideal(const JobView& job, double scale) const {
    return scale * (1 - settings_.efficiency) / settings_.efficiency / workers_of(job);
  }

  void change(const JobView& job, std::uint32_t target, State& state, JobDecision& decision) const {
    const std::uint32_t now = job.batch.per_worker;
    if (target == now) return;
    if (state.target != 0 && job.steps_done - state.changed_at_steps < settings_.min_steps) {
      decision.reason.code = "waiting";
      return;
    }
    state.target = target;
    state.changed_at_steps = job.steps_done;
    decision.per_worker_batch = target;
    decision.reason.code = target > now ? "noise_grew" : "noise_fell";
    decision.reason.text +=
        format_text("; %u samples per worker instead of %u (target %.2f)", target, now, settings_.efficiency);
    decision.reason.numbers.emplace_back("per_worker_batch", target);
  }

  std::uint32_t target_batch(const JobView& job, double scale) const {
    const double now = job.batch.per_worker;
    const double base = static_cast<double>(job.base_batch) / workers_of(job);
    double min = std::max<double>(settings_.min_per_worker, settings_.below_base ? 1 : std::ceil(base));
    const double limit = max(job);
    min = std::min(min, limit);
    const double near = std::clamp(ideal(job, scale), now / settings_.growth, now * settings_.growth);
    return std::max(rounded(std::clamp(near, min, limit)), static_cast<std::uint32_t>(min));
  }

  NoiseBatchSettings settings_;
};

}  // namespace

void KungFuNoiseAverage::add(const GradientNorms& norms) {
  if (!noise_moments(norms)) return;
  scale_.add(norms.local_square, norms.local_batch, norms.global_square, norms.global_batch);
  const double batch = norms.workers == 1 ? norms.global_batch : norms.local_batch;
  const double value = scale_.magnitude().value_or(0) / batch;
  value_ = value_ == 0 ? value : 0.9 * value_ + 0.1 * std::clamp(value, value_ / 2, 2 * value_);
}

bool KungFuNoiseAverage::has_grown() {
  const bool grown = before_ > 0 && value_ > before_;
  before_ = value_;
  return grown;
}

PolicySpec noise_batch_policy() {
  const Range batches{1, static_cast<double>(std::numeric_limits<std::uint32_t>::max())};
  SettingsTable<NoiseBatchSettings> table;
  table
      .text(
          "mode", &NoiseBatchSettings::mode, {"efficiency", "kungfu"},
          "efficiency: the largest batch in which samples keep their worth; kungfu: doubled after each epoch in which "
          "the noise scale grew")
      .number("efficiency", &NoiseBatchSettings::efficiency, {0.05, 0.99}, "",
              "minimum worth of a sample, relative to a very small batch")
      .number("horizon_steps", &NoiseBatchSettings::horizon_steps, {10, 1e9}, "steps",
              "measured steps over which the noise scale is averaged")
      .number("max_error", &NoiseBatchSettings::max_error, {0.01, 1}, "",
              "relative error of the noise scale below which it counts as known")
      .number("hysteresis", &NoiseBatchSettings::hysteresis, {1, 10}, "",
              "the batch stays within this factor of the target")
      .number("growth", &NoiseBatchSettings::growth, {1.01, 100}, "", "maximum factor of one change of the batch")
      .number("min_steps", &NoiseBatchSettings::min_steps, {0, 1e9}, "steps",
              "minimum number of steps between two changes")
      .flag("below_base", &NoiseBatchSettings::below_base, "allow a global batch below the initial one")
      .whole("min_per_worker", &NoiseBatchSettings::min_per_worker, batches, "samples", "minimum batch of a worker")
      .whole("max_per_worker", &NoiseBatchSettings::max_per_worker, batches, "samples",
             "maximum batch of a worker: what fits in its memory")
      .number("epoch_samples", &NoiseBatchSettings::epoch_samples, {1, 1e15}, "samples",
              "kungfu: samples between two decisions");
  PolicySpec spec = policy_spec<NoiseBatch>(
      "noise-batch", "the batch of each worker follows the gradient noise scale; keeps the size", table);
  spec.decides_size = false;
  return spec;
}

}  // namespace elastictrain::heuristics
