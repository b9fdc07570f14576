// Purpose: `hosts.endpoint`: the same command is started on every host. The first one on the endpoint's machine runs
// the training; the others offer their hosts to it (launcher/rendezvous).
//
// Thread: any one; joins block until the run has ended. Errors: kInvalid: the endpoint or the secret; kUnavailable: the
// endpoint cannot be held here.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "cli/config/endpoint_text.h"
#include "cli/config/run_config.h"
#include "launcher/host_source.h"
#include "launcher/rendezvous/rendezvous.h"

namespace elastictrain::cli {

// This machine as a host of the run, with hosts.slots slots.
launcher::Host this_machine(const HostsConfig& hosts);

// A held endpoint, and the loop that it belongs to.
struct Meeting {
  std::unique_ptr<asio::io_context> io = std::make_unique<asio::io_context>(1);
  std::unique_ptr<launcher::Rendezvous> rendezvous;
};

// As a run that is resumed: the endpoint is held here.
Result<Meeting> hold_endpoint(const RunConfig& config);

// Holds the endpoint, or offers this host and returns the exit status once the run has ended.
Result<std::variant<Meeting, int>> meet(const RunConfig& config);

}  // namespace elastictrain::cli
