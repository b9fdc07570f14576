// Purpose: makes the launcher and the host source of a configuration.
#pragma once

#include <asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>

#include "cli/commands/run_plan.h"
#include "launcher/host_source.h"
#include "launcher/launcher.h"
#include "launcher/rendezvous/rendezvous.h"

namespace elastictrain::cli {

// `rendezvous`: reaches the hosts that were offered to it; may be null.
// The batch system's job that a host belongs to, if it is not this process's own job; else empty.
using JobOfHost = std::function<std::string(const std::string& host)>;

Result<std::unique_ptr<launcher::Launcher>> make_launcher(
    asio::io_context& io, const RunConfig& config, const RunPlan& plan, launcher::LaunchSink sink,
    JobOfHost job_of = [](const std::string&) { return std::string(); }, launcher::Rendezvous* rendezvous = nullptr);

std::unique_ptr<launcher::HostSource> make_host_source(asio::io_context& io, const RunConfig& config,
                                                       const RunPlan& plan);

}  // namespace elastictrain::cli
