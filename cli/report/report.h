// Purpose: figures of a run's report as plain data, and values over the time of a run in bounded memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"

// Values over the time of a run of any length in bounded memory: at most kMost buckets of equal width, which
// doubles when the run outgrows them. Pure; no errors: a time that no run has is counted at the nearest one.

namespace elastictrain::cli::run_report {

// A mean with its weight, and the extremes.
struct Mean {
  double weight = 0;
  double sum = 0;
  double min = 0;
  double max = 0;

  double value() const { return weight > 0 ? sum / weight : 0; }
  void add(const Mean& other) {
    if (other.weight <= 0) return;
    min = weight > 0 ? std::min(min, other.min) : other.min;
    max = weight > 0 ? std::max(max, other.max) : other.max;
    weight += other.weight;
    sum += other.sum;
  }
};

inline Mean mean_of(double value, double weight = 1) {
  return {weight, value * weight, value, value};
}

class Timeline {
 public:
  explicit Timeline(std::size_t most) : most_(most) {}

  void add(double at_s, const Mean& value) {
    if (!std::isfinite(value.sum) || !std::isfinite(value.weight)) return;
    const double at = std::clamp(std::isfinite(at_s) ? at_s : 0, 0.0, kLongest_s);
    while (at >= width_s_ * static_cast<double>(most_)) widen();
    const auto index = static_cast<std::size_t>(at / width_s_);
    if (index >= buckets_.size()) buckets_.resize(index + 1);
    buckets_[index].add(value);
  }

  double width_s() const { return width_s_; }
  const std::vector<Mean>& buckets() const { return buckets_; }
  bool empty() const { return buckets_.empty(); }

  // As wide as a wider one's buckets: widths are powers of two of the same first one.
  void widen_to(double width_s) {
    while (width_s_ < width_s) widen();
  }

 private:
  static constexpr double kLongest_s = 1e10;

  void widen() {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (i % 2 == 0) {
        const Mean even = buckets_[i];
        buckets_[i / 2] = even;
      } else {
        buckets_[i / 2].add(buckets_[i]);
      }
    }
    buckets_.resize((buckets_.size() + 1) / 2);
    width_s_ *= 2;
  }

  std::size_t most_;
  double width_s_ = 0.25;
  std::vector<Mean> buckets_;
};

// The figures of a run's report, collected from the records of its journal. Plain data, bounded whatever the
// length of the journal. Times are in seconds since the start of the run, without the time in which no supervisor was
// there, unless a name says otherwise.

inline constexpr std::size_t kMaxBuckets = 480;      // of a curve
inline constexpr std::size_t kMaxHeatBuckets = 120;  // of a worker's row
inline constexpr std::size_t kMaxRows = 400;         // of a table
inline constexpr std::size_t kMaxWorkers = 4'000;    // whose figures are kept

struct SizeChange {
  double at_s = 0;
  std::uint64_t workers = 0;
};

struct Change {
  Generation generation = 0;
  std::string kind;
  std::string reason;
  double planned_s = 0;
  std::optional<double> committed_s;
  std::uint64_t size_before = 0;
  std::uint64_t size = 0;
  std::optional<double> idle_s;
  std::string cancelled;  // why it was dropped; empty: it was not
};

// A loss, a hang, a takeover, a slow worker: what interrupts or threatens a run.
enum class IncidentKind : std::uint8_t { kLoss, kHang, kHost, kHalt, kSupervisor, kStraggler, kEnd };
struct Incident {
  double at_s = 0;
  double unix_s = 0;
  IncidentKind kind = IncidentKind::kLoss;
  std::string what;
};

// Sums over steps, in seconds.
struct StepParts {
  double steps = 0;
  double step_s = 0;
  double data_wait_s = 0;
  double compute_s = 0;
  double communicate_s = 0;
  double update_s = 0;
};

struct WorkerReport {
  std::uint64_t id = 0;
  std::string host;
  std::uint32_t rank = 0;  // the newest
  std::string fate;        // how its process ended; empty: not known, or it lives
  bool failed = false;     // it ended otherwise than it should
  std::optional<double> ended_s;
  StepParts parts;
  Timeline slowness{kMaxHeatBuckets};  // compute time of a step, relative to the median worker's
};

template <class T>
struct Bounded {
  std::vector<T> rows;  // all of them, or the first and the last half of kMaxRows, once they are trimmed
  std::uint64_t total = 0;
  void add(T row) {
    ++total;
    rows.push_back(std::move(row));
    if (rows.size() == 8 * kMaxRows) trim();  // not for each row: that would move half of them each time
  }
  void trim() {
    if (rows.size() > kMaxRows) rows.erase(rows.begin() + kMaxRows / 2, rows.end() - kMaxRows / 2);
  }
};

struct Report {
  std::string name;
  std::string version;
  std::vector<std::string> command;  // of a worker
  std::vector<std::string> typed;    // the command line of the run; empty: not known
  std::uint32_t min_workers = 0;
  std::uint32_t start_workers = 0;
  std::uint32_t max_workers = 0;
  double began_unix_s = 0;
  double last_unix_s = 0;
  double up_s = 0;  // of the newest record
  std::uint64_t supervisors = 1;
  std::optional<double> first_step_s;  // when the first generation trained

  bool is_live = false;                     // a supervisor is there
  std::optional<std::int64_t> exit_status;  // none: the run goes on, or its supervisor was lost
  std::string end_reason;
  std::string audit;
  bool audit_failed = false;
  std::map<std::string, std::string> notes;

  Step steps = 0;
  double samples = 0;
  double loss = 0;
  bool has_loss = false;
  double worker_seconds = 0;
  double cost = 0;
  std::uint64_t transferred_bytes = 0;

  std::vector<SizeChange> sizes;
  Timeline throughput{kMaxBuckets};
  Timeline losses{kMaxBuckets};  // of training, not of workers
  Bounded<Change> changes;
  std::uint64_t changes_made = 0;
  double idle_s = 0;
  std::uint64_t recoveries = 0;
  std::map<std::string, std::uint64_t> losses_by_class;
  Bounded<Incident> incidents;
  std::map<std::uint64_t, WorkerReport> workers;
  std::uint64_t workers_left_out = 0;
  StepParts parts;
  std::uint64_t views = 0;                           // that were taken of the run
  std::map<std::uint32_t, Mean> throughput_by_size;  // weighted by seconds
};

}  // namespace elastictrain::cli::run_report
