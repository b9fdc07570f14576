// Purpose: the output of `run --dry-run`: hosts, ranks, commands, environment. Pure.
#pragma once

#include <string>

#include "cli/commands/run_plan.h"
#include "cli/config/run_config.h"
#include "launcher/launcher.h"

namespace elastictrain::cli {

std::string render_dry_run(const RunConfig& config, const RunPlan& plan, const launcher::Launcher& launcher);

}  // namespace elastictrain::cli
