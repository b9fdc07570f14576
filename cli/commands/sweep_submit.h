// Purpose: makes a trial of a sweep a job of its cluster, as `elastictrain submit` does it.
//
// Thread: one, which waits. Errors: the status and the text of submit.
#pragma once

#include <string>

#include "cli/config/sweep_file.h"

namespace elastictrain::cli {

struct SweepPlace {
  std::string cluster_directory;
  std::string config_directory;  // of the sweep's file: paths in it are relative to it
};

struct SubmitAnswer {
  int status = 0;    // exit status of submit
  std::string text;  // why it was refused, in one line
};

SubmitAnswer submit_trial(const SweepTrial& trial, const SweepPlace& place);

}  // namespace elastictrain::cli
