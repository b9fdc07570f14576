// Purpose: the input of a policy: one job (or several) as figures, taken at one instant. Made by the live run's policy
// runner, by the simulator's job model, and by `elastictrain explain` from a journal; a policy cannot tell which.
//
// Pure values. Times in seconds since the job's first start unless a name says otherwise. Rates in samples per second
// of the whole job. An unknown figure is 0 if 0 is impossible, else its `has_…` is false.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/batch_plan.h"

namespace elastictrain::heuristics {

// Consecutive steps at one size and batch. The first steps after a change have an interval of their own (`warm_up`).
struct Interval {
  double begin_s = 0;
  double end_s = 0;
  std::uint32_t workers = 0;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t global_batch = 0;
  bool warm_up = false;
  double seconds() const { return end_s - begin_s; }
  double samples_per_s() const { return seconds() > 0 ? static_cast<double>(samples) / seconds() : 0; }
};

// Means over the steps since the last view. `compute_s` ends before the collective, so that stragglers are visible.
struct WorkerView {
  std::uint64_t id = 0;  // never changes
  std::uint32_t rank = 0;
  std::uint32_t host = 0;   // index into ClusterView::hosts
  std::uint32_t share = 0;  // samples per step
  std::uint64_t steps = 0;  // that the means are over; 0: no new figures
  double step_s = 0;
  double data_wait_s = 0;
  double compute_s = 0;
  double communicate_s = 0;
  double update_s = 0;
  double sent_bytes = 0;  // per step, over the network's sockets
  double received_bytes = 0;
  double round_trip_s = 0;  // to the farthest worker on another host that it is connected to
  double processors = 0;    // that its process has kept busy since the last view
};

// The means of a WorkerView by name, for views as text.
struct WorkerMean {
  const char* name;
  double WorkerView::*value;
};
inline constexpr WorkerMean kWorkerMeans[] = {
    {"step_s", &WorkerView::step_s},
    {"data_wait_s", &WorkerView::data_wait_s},
    {"compute_s", &WorkerView::compute_s},
    {"communicate_s", &WorkerView::communicate_s},
    {"update_s", &WorkerView::update_s},
    {"sent_bytes", &WorkerView::sent_bytes},
    {"received_bytes", &WorkerView::received_bytes},
    {"round_trip_s", &WorkerView::round_trip_s},
    {"processors", &WorkerView::processors},
};

// Squared norms of gradients, means over `count` steps. local: mean over workers of |g_i|^2, each of `local_batch`
// samples; global: |average|^2, of `global_batch` samples. A single worker's local gradients are those of two halves of
// its batch if its program reports them; otherwise both batches are equal. Batches are harmonic means, so that the
// estimates of G^2 and S stay without bias where batches differ.
struct GradientNorms {
  std::uint64_t count = 0;
  double local_square = 0;
  double global_square = 0;
  double local_batch = 0;
  double global_batch = 0;
  std::uint32_t workers = 0;
};

struct HostView {
  std::string name;
  std::string host_class;  // of hosts with equal price and speed; empty: all are one class
  std::uint32_t slots = 0;
  std::uint32_t free_slots = 0;
  double price_per_worker_hour = 0;
  bool leaving = false;  // it got a notice or is being drained
};

// What the finished job is worth at a time; straight lines between the points, level before and after them.
struct UtilityPoint {
  double seconds = 0;  // since the job's first start
  double value = 0;    // in the unit of the prices
};

// Of a job that does not say how long it trains, by its loss (convergence.h).
struct ExpectedLength {
  double samples = 0;  // of the whole job
  double error = 0;    // in samples, to both sides
};

struct JobView {
  std::string name;
  std::uint32_t workers = 0;  // of the running generation
  std::uint32_t target = 0;   // of a change in progress, else equal to workers
  std::uint32_t min_workers = 1;
  std::uint32_t max_workers = 1;
  bool held = false;            // a user holds the size: it is both the minimum and the maximum
  std::uint32_t reachable = 0;  // the maximum number of workers that hosts have slots for now, its own included
  double start_s = 0;           // that a worker took to start, the newest; 0: not known
  std::uint32_t spares = 0;     // ready ones and warm processes, which join at once
  bool changing = false;        // a change has begun and is not complete

  double samples_done = 0;   // committed
  double samples_total = 0;  // of the whole job; 0: the end is unknown
  double steps_done = 0;
  double loss = 0;
  bool has_loss = false;
  std::optional<ExpectedLength> expected_length;  // only if samples_total is 0
  std::string no_expected_length;                 // why there is none, of such a job; empty: there is one

  BatchRule batch;  // that the next change follows; equal to what trains unless `changing`
  std::uint64_t global_batch = 0;
  std::uint64_t base_batch = 0;  // that the user's learning rate was chosen for
  double learning_rate_factor = 1;
  std::string topology;         // of the data plane; "auto": its own choice; a tree as its parents: "1,1,1"
  std::string synchronization;  // "s-sgd", "averaging", "pair-averaging"

  std::vector<Interval> intervals;  // since the last view, in order
  GradientNorms norms;              // since the last view
  std::vector<WorkerView> members;  // by rank

  double worker_seconds = 0;  // paid for so far, also during idle time
  double cost = 0;            // of these, in the unit of the prices

  std::vector<UtilityPoint> utility;  // by a program of the user's, in the order of time; empty: as the policy has it
};

struct ClusterView {
  double now_s = 0;
  std::vector<HostView> hosts;
  std::vector<JobView> jobs;  // a run has one
};

}  // namespace elastictrain::heuristics
