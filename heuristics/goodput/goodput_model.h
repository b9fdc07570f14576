// Purpose: goodput, the rate at which a job learns: samples per second times the value of a sample at that batch
// (Pollux, OSDI 2021; AdaptDL's code, algorithms G).
//
// T_grad = ac + bc m; T_net = an + bn max(r - 2, 0) over several hosts, ar + br max(r - 2, 0) on one, none for one
// worker; T_step = (T_grad^g + T_net^g)^(1/g) with g in [1, 10]; throughput = r m (s + 1) / (s T_grad + T_step), for r
// workers of m samples that sum s gradients up before each step. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace elastictrain::heuristics {

struct GoodputParameters {
  double compute_s = 1e-8;             // ac
  double compute_s_per_sample = 1e-8;  // bc
  double net_s = 1e-8;                 // an, several hosts
  double net_s_per_worker = 1e-8;      // bn
  double local_s = 1e-8;               // ar, one host
  double local_s_per_worker = 1e-8;    // br
  double overlap = 1;                  // g
};

struct GoodputPlace {
  std::uint32_t hosts = 1;
  std::uint32_t workers = 1;
};

struct GoodputSample {
  GoodputPlace place;
  double local_batch = 0;
  double step_s = 0;
  double compute_s = 0;  // of the gradient alone; 0: not measured
};

double gradient_s(const GoodputParameters& parameters, double local_batch);
double network_s(const GoodputParameters& parameters, const GoodputPlace& place);
double step_s(const GoodputParameters& parameters, const GoodputPlace& place, double local_batch);
double throughput(const GoodputParameters& parameters, const GoodputPlace& place, double local_batch,
                  std::uint32_t accumulation = 0);

// The objective of the fit: the root mean square of log errors (of steps, and of gradients if measured) + 1e-3 (g -
// 1)^2 + 1e-2 ((bn / an)^2 + (br / ar)^2).
double fit_loss(const GoodputParameters& parameters, const std::vector<GoodputSample>& samples);

// Within bounds of 1e-8 and more. The priors decide where observations are missing: what was not seen costs nothing (so
// a job tries it), except that several hosts cost at least 1.1 times one. With a single batch, ac is half the mean
// gradient time. If neither gradients nor one worker alone were measured, as much of a step counts as computation as
// the samples allow: all of it if they are of one size. Returns nothing without a usable sample. `before` is the last
// fit of the same job; it speeds up the next one.
std::optional<GoodputParameters> fit_goodput(const std::vector<GoodputSample>& samples,
                                             const std::optional<GoodputParameters>& before = std::nullopt);

// The progress of a step of `batch` per sample, relative to `base_batch`: gain / (batch / base_batch), from the noise
// scale. In (0, 1] for batches of at least the base; 1 while the noise scale is unknown (0 counts as unknown).
double statistical_efficiency(double noise_scale, double batch, double base_batch);

struct GoodputJob {
  GoodputParameters parameters;
  std::optional<double> noise_scale;  // in samples; unknown: only the base batch is considered
  double base_batch = 0;              // global, the one that the learning rate was chosen for
  std::uint32_t min_local = 1;
  std::uint32_t max_local = 1;   // what fits in a worker
  std::uint64_t max_global = 0;  // 0: no limit
};

double goodput(const GoodputJob& job, const GoodputPlace& place, double local_batch, std::uint32_t accumulation = 0);

// The batch with the highest goodput for a placement, of 50 geometric sizes between the base and the maximum.
struct GoodputChoice {
  std::uint32_t local_batch = 0;
  double goodput = 0;
};
GoodputChoice best_batch(const GoodputJob& job, const GoodputPlace& place);

}  // namespace elastictrain::heuristics
