// Purpose: `elastictrain run`: prints what it would start (--dry-run), runs in a process of its own (--detach), or
// runs here.
#pragma once

#include <functional>
#include <string>

#include "cli/commands/run/run_plan.h"
#include "cli/config/run_config.h"
#include "launcher/launcher.h"

// The output of `run --dry-run`: hosts, ranks, commands, environment. Pure.

namespace elastictrain::cli {

std::string render_dry_run(const RunConfig& config, const RunPlan& plan, const launcher::Launcher& launcher);

// `run --detach`: the run goes on in a process of its own session, and the command returns when training has
// begun, or with the run's status if it ends before.
//
// Until then the child writes to the command's own standard output and error, so that every mistake is seen; then these
// lead nowhere, and `logs` and `attach` show what is written. Thread: called before the process has threads. Errors: a
// process that cannot be started is one line on standard error.

class Detachment {
 public:
  // `notice`: the write end of a pipe to the waiting command.
  explicit Detachment(int notice) : notice_(notice) {}
  ~Detachment();
  Detachment(const Detachment&) = delete;
  Detachment& operator=(const Detachment&) = delete;

  // In the child, once training has begun; later calls do nothing.
  void begun(const std::string& run_name);

 private:
  int notice_;
};

// Calls `run` in a child, which ends with the status that it returns. Returns the exit status of the command.
int run_detached(const std::function<int(Detachment&)>& run);

}  // namespace elastictrain::cli
