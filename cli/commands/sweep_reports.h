// Purpose: the values of a sweep's metric that one trial has reported, read from its run's directory while it trains.
//
// Notes are those of rank 0 (Session::note()), and of the output its lines count. Values that are no number are
// not-a-number: worse than every other.
//
// Ownership: owns the open file. Thread: one. Errors: what cannot be read gives no values.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config/sweep_file.h"
#include "cli/output/file_follow.h"

namespace elastictrain::cli {

// What has been read so far, and where to read on.
struct KnownReports {
  std::vector<double> values;
  LogFollower::Place place;
};

class SweepReports {
 public:
  explicit SweepReports(const SweepFile& file);

  // What an earlier sweep has read: before the first read().
  void restore(KnownReports known);
  // Reads on. The directory is that of a run that has begun. True: the run was begun anew, and its values replace all.
  bool read(const std::string& run_directory);
  const std::vector<double>& values() const { return values_; }
  LogFollower::Place place() const { return follower_ ? follower_->place() : LogFollower::Place{}; }

  // A line of the journal, or of the kept output.
  void take_event(std::string_view line);
  void take_output(std::string_view line);

 private:
  std::string metric_;
  std::optional<std::regex> pattern_;
  std::optional<LogFollower::Place> restored_;
  std::optional<LogFollower> follower_;
  std::vector<double> values_;
};

}  // namespace elastictrain::cli
