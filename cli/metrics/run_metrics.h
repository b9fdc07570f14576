// Purpose: the metrics of a run, from its figures and the records of its journal. Pure.
//
// Ownership and thread: one per run, on its loop. Memory: bounded by the number of workers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/metrics/exposition.h"
#include "supervisor/control/run_status.h"
#include "supervisor/core/pure/records.h"

namespace elastictrain::cli::metrics {

// Of more workers, the times of single ones are left out: a time series for each would burden the database.
inline constexpr std::size_t kMaxSingleWorkers = 256;

class RunMetrics {
 public:
  RunMetrics(std::string run_name, std::string version);

  void add_figures(const RunFigures& figures);
  void add_record(const core::Record& record);

  std::string text(Format format) const;

 private:
  template <class R>
  void on(const R&) {}  // no metric
  void on(const core::record::GenerationComplete& complete);
  void on(const core::record::Idle& idle);
  void on(const core::record::Loss& loss) { ++losses_[loss.failure_class]; }
  void on(const core::record::Abort&) { ++recoveries_; }
  void on(const core::record::RunResumed&) { ++takeovers_; }
  void on(const core::record::Note& note);
  void add_steps();
  std::vector<Family> families() const;
  void add_size(std::vector<Family>& families) const;
  void add_progress(std::vector<Family>& families) const;
  void add_changes(std::vector<Family>& families) const;
  void add_workers(std::vector<Family>& families) const;

  Labels common_;
  std::string version_;
  RunFigures last_;
  Histogram step_seconds_;
  WorkerId counted_worker_;  // whose heartbeats are counted
  std::uint64_t counted_sequence_ = 0;
  std::uint64_t samples_ = 0;
  std::map<std::uint64_t, std::string> kinds_;  // of the newest generations
  std::map<std::string, std::uint64_t> changes_;
  std::map<std::string, double> idle_s_;
  std::map<std::string, std::uint64_t> losses_;
  std::uint64_t recoveries_ = 0;
  std::uint64_t takeovers_ = 0;
  std::uint64_t checkpoint_failures_ = 0;
};

}  // namespace elastictrain::cli::metrics
