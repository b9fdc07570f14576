// Purpose: observation of a run: turns its workers' reports into the views that policies decide on, and reports the
// noise of its gradients. Pure.
#pragma once

#include <fnmatch.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/batch_plan.h"
#include "heuristics/noise/noise_scale.h"
#include "heuristics/policy/view.h"
#include "supervisor/core/pure/run_view.h"
#include "supervisor/protocol/worker_messages.h"

// Matches names of hosts and of variables against a pattern, as in a shell. Pure.

namespace elastictrain {

inline bool fits_pattern(const std::string& text, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace elastictrain

// Turns the reports of the run's workers into the views that policies decide on. Pure.
//
// Ownership: one per run, by the policy runner. Thread: the supervisor's loop.

namespace elastictrain::policy {

// Prices of hosts: the first class whose pattern matches a host's name applies.
struct HostClass {
  std::string name;
  std::string pattern;  // as in a shell
  double price_per_worker_hour = 0;
};

struct ObserverSettings {
  std::uint32_t min_workers = 1;
  std::uint32_t max_workers = 1;
  bool hosts_can_be_had = false;     // more than the present ones, up to max_workers
  double samples_total = 0;          // 0: as the program says
  std::uint32_t warm_up_steps = 1;   // of each generation, excluded from measurement
  double price_per_worker_hour = 0;  // of a host without a class
  std::vector<HostClass> classes;
};

// The class of that host; nothing if it belongs to none.
const HostClass* class_of(const ObserverSettings& settings, const std::string& host);
// Price of a worker there per hour.
double price_of(const ObserverSettings& settings, const std::string& host);

// What the run costs and how well its workers are used, at the last view.
struct Economy {
  double worker_seconds = 0;  // paid for, also during idle time
  double cost = 0;            // of these, in the unit of the prices
  // Samples a second of a worker, relative to those at the smallest size of this run; nothing at that size.
  std::optional<double> scaling_efficiency;
  std::uint32_t smallest_size = 0;
};

class Observer {
 public:
  explicit Observer(ObserverSettings settings);

  // A generation that may run: the context of its workers' figures.
  void planned(Generation generation, WorkerId first_rank, std::uint32_t workers, std::uint64_t global_batch);

  // A worker's newest heartbeat; a repeated one changes nothing. Times are the run's own, in seconds.
  void on_heartbeat(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat, double now_s);

  // All members take the same steps at the same pace: the first rank's heartbeats are those of the job.
  bool represents_job(WorkerId worker, Generation generation) const;

  // The CPU time of a worker's process so far.
  void on_cpu_time(WorkerId worker, std::uint64_t cpu_ms, double now_s);

  // The view since the previous one.
  heuristics::ClusterView take(const core::RunView& run, double now_s);

  // What a program that is no policy gets: how far the run is; takes nothing from the next view.
  heuristics::ClusterView outline(const core::RunView& run, double now_s) const;

  // Of the whole job, as the user or the program says; 0: nobody does.
  double samples_total(const core::RunView& run) const;

  Economy economy() const;

  // Steps of the present generation that have been measured since the last view.
  std::uint64_t fresh_steps() const;

 private:
  heuristics::JobView outline_of(const core::RunView& run) const;
  struct Sums {
    Generation generation = 0;
    std::uint64_t sequence = 0;
    std::uint64_t steps = 0;
    protocol::StepMetrics sum;
    double round_trip_us = 0;  // the newest
  };
  // Of a process: its CPU time, and when it was read.
  struct CpuTime {
    double cpu_s = 0;
    double at_s = 0;
  };
  struct CpuTimes {
    CpuTime first;  // of the view, the last of the one before
    CpuTime last;
  };
  struct Planned {
    WorkerId first_rank;
    std::uint32_t workers = 0;
    std::uint64_t global_batch = 0;
  };
  void add_norms(const protocol::WorkerHeartbeat& heartbeat, const Planned& plan);
  void add_interval(const protocol::WorkerHeartbeat& heartbeat, const Planned& plan, double now_s);
  void note_rate(double samples_per_s);
  void pay(const core::RunView& run, double now_s);
  double processors_of(WorkerId worker);

  ObserverSettings settings_;
  std::map<WorkerId, Sums> workers_;
  std::map<WorkerId, CpuTimes> cpu_times_;
  std::map<Generation, Planned> plans_;
  std::vector<heuristics::Interval> intervals_;
  struct NormSums {  // means
    std::uint64_t count = 0;
    double local_square = 0;
    double global_square = 0;
    double local_inverse_batch = 0;
    double global_inverse_batch = 0;
  };
  heuristics::GradientNorms take_norms();
  NormSums norms_;
  Planned norms_of_;  // the plan whose workers and batch they are of
  Generation generation_ = 0;
  Step warm_until_ = 0;
  double loss_ = 0;
  bool has_loss_ = false;
  double samples_done_ = 0;
  double steps_done_ = 0;
  std::map<std::uint32_t, double> step_rates_;  // newest samples a second by size, without first steps
  std::uint32_t size_ = 0;
  double paid_until_s_ = 0;
  double worker_seconds_ = 0;
  double cost_ = 0;
};

// Reports to a run how noisy its gradients are, so that the learning rate can follow by the AdaScale rule:
// when the noise is known, or known to be at least so large, and again when it has changed so much that the rate should
// change. Pure.
//
// Ownership: one per run, by the policy runner. Thread: the supervisor's loop.

class NoiseWatch {
 public:
  // With a rule that does not use the noise there is never a report. `max_workers`: of the run.
  NoiseWatch(heuristics::LearningRateRule rule, std::uint32_t max_workers) : rule_(rule), max_workers_(max_workers) {}

  void add(const heuristics::JobView& job);

  // The noise scale, in samples, if the rate at the largest batch of this run would change by it. A rate at a smaller
  // batch changes less, so the rate is right within this tolerance for any batch that the run may reach.
  std::optional<double> take_news();

 private:
  double gain(double noise_scale) const;

  const heuristics::LearningRateRule rule_;
  const std::uint32_t max_workers_;
  double base_batch_ = 0;
  double largest_batch_ = 0;
  heuristics::NoiseScale noise_;
  double reported_ = 0;  // the last one reported; 0: none yet
};

}  // namespace elastictrain::policy
