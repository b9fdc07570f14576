// Purpose: values that the trials of a sweep have reported, kept beside the sweep's state: a sweep that goes on has all
// of them, also those that the trials' logs have no room for any more.
//
// One JSON object a line, which is appended: the trial, the values from the `first` one on, and where its log was read
// up to. Ownership: the sweep. Thread: one. Errors: kIo, with the path. A torn line is none.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "cli/commands/sweep_reports.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

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

}  // namespace elastictrain::cli
