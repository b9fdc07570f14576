// Purpose: the values of a sweep's metric that one trial has reported, read from its run's directory while it trains.
//
// Notes are those of rank 0 (Session::note()), and of the output its lines count. Values that are no number are
// not-a-number: worse than every other.
//
// Ownership: owns the open file. Thread: one. Errors: what cannot be read gives no values.
#pragma once

#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config/sweep_file.h"
#include "cli/output/file_follow.h"

namespace elastictrain::cli {

class SweepReports {
 public:
  explicit SweepReports(const SweepFile& file);

  // Reads on. The directory is that of a run that has begun.
  void read(const std::string& run_directory);
  const std::vector<double>& values() const { return values_; }

  // A line of the journal, or of the kept output.
  void take_event(std::string_view line);
  void take_output(std::string_view line);

 private:
  std::string metric_;
  std::optional<std::regex> pattern_;
  std::unique_ptr<FileFollower> follower_;
  std::vector<double> values_;
};

}  // namespace elastictrain::cli
