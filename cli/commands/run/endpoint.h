// Purpose: the endpoint at which the commands of one run meet, and the addresses of this machine.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/config/checks.h"
#include "cli/config/run_config.h"
#include "launcher/host_source.h"
#include "launcher/rendezvous/rendezvous.h"
#include "supervisor/protocol/result.h"

// The numeric addresses of this machine. Errors: the interface does not exist or has no address.

namespace elastictrain::cli {

// IPv4 before IPv6; without loopback and link-local ones. `interface` empty: of all interfaces that are up.
Result<std::vector<std::string>> machine_addresses(const std::string& interface);

// Every address of this machine, loopback included.
std::vector<std::string> all_addresses();

// `hosts.endpoint`: the same command is started on every host. The first one on the endpoint's machine runs
// the training; the others offer their hosts to it (launcher/rendezvous).
//
// Thread: any one; joins block until the run has ended. Errors: kInvalid: the endpoint or the secret; kUnavailable: the
// endpoint cannot be held here.

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
