// Purpose: the launcher and the host source that a configuration asks for.
#pragma once

#include <asio.hpp>

#include <memory>

#include "cli/commands/run_plan.h"
#include "launcher/host_source.h"
#include "launcher/launcher.h"

namespace elastictrain::cli {

Result<std::unique_ptr<launcher::Launcher>> make_launcher(asio::io_context& io, const RunConfig& config,
                                                          const RunPlan& plan, launcher::LaunchSink sink);

std::unique_ptr<launcher::HostSource> make_host_source(asio::io_context& io, const RunConfig& config,
                                                       const RunPlan& plan);

}  // namespace elastictrain::cli
