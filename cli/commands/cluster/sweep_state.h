// Purpose: progress of a sweep: the values that its trials report, and both they and the states of the trials on
// disk, so that the same command continues it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config/sweep_file.h"
#include "cli/output/file_follow.h"
#include "supervisor/protocol/result.h"

// The values of a sweep's metric that one trial has reported, read from its run's directory while it trains.
//
// Notes are those of rank 0 (Session::note()), and of the output its lines count. Values that are no number are
// not-a-number: worse than every other.
//
// Ownership: owns the open file. Thread: one. Errors: what cannot be read gives no values.

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

// Values that the trials of a sweep have reported, kept beside the sweep's state: a sweep that goes on has all
// of them, also those that the trials' logs have no room for any more.
//
// One JSON object a line, which is appended: the trial, the values from the `first` one on, and where its log was read
// up to. Ownership: the sweep. Thread: one. Errors: kIo, with the path. A torn line is none.

class SweepReportFile {
 public:
  explicit SweepReportFile(std::string path) : path_(std::move(path)) {}

  // By the trials' names. Nothing without the file.
  std::map<std::string, KnownReports> read() const;
  // The values from `first` on are new, or replace others.
  Status add(const std::string& trial, std::size_t first, const KnownReports& known) const;

 private:
  std::string path_;
};

// Progress of a sweep, kept in one file, so that the same command continues it after its end: its trials,
// which of them are jobs of the cluster, and what became of them.
//
// Ownership: the sweep. Thread: one. Errors: values that name the file and what to do. After a crash there is the file
// as it was before the last change or after it.

struct TrialState {
  double begun_unix_s = 0;  // its submission was begun then; 0: not yet
  bool is_submitted = false;
  std::string refused;        // why it can never be a job of the cluster
  std::string stopped;        // the rule's reason
  std::optional<int> status;  // the job has ended
};

class SweepState {
 public:
  // <state>/sweeps/NAME.json. kRefused: it is of a sweep with other trials, or runs of the trials' names exist already.
  static Result<SweepState> open(const SweepFile& file, const std::vector<SweepTrial>& trials);

  std::vector<TrialState> trials;  // in the order of the sweep's

  // The file of what the trials report.
  std::string reports_path() const;

  // Writes the file if something has changed since it was written last.
  Status save();

 private:
  SweepState(std::string path, std::vector<SweepTrial> planned);

  std::string path_;
  std::vector<SweepTrial> planned_;
  std::string written_;
};

}  // namespace elastictrain::cli
