// Purpose: builds the communicators for host memory: shared memory within a host, TCP or other messages between hosts.
// They have no thread of their own.
//
// The builder runs in the caller's thread (a background thread of the session) and may run while another communicator
// of the same process is in use. It also makes the connections that send state to joiners, because those use the same
// listener and the same generation token: a donor connects, a joiner accepts.
//
// Failure: kTimeout with the names of the missing peers, kAborted after cancel(), kInvalid for an inconsistent plan.
// Nothing is left behind in any case.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/comm/cancel_token.h"
#include "train/comm/channel.h"
#include "train/comm/communicator.h"
#include "train/comm/data_listener.h"
#include "train/comm/op_control.h"
#include "train/comm/rail.h"
#include "train/comm/topology.h"

namespace elastictrain::comm {

// One connection for state between this rank and `peer_rank`.
struct StateSocket {
  std::uint32_t peer_rank = 0;
  bool receives = false;  // true: the peer is a donor and this rank receives its bytes
  Channel channel;
};

struct BuildResult {
  std::unique_ptr<Communicator> communicator;
  std::vector<StateSocket> state_sockets;
};

// `state_transfer_from`: ranks that send state to this one; `state_transfer_to`: ranks that receive state from it.
Result<BuildResult> build_cpu_communicator(const BuildSpec& spec, DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from = {},
                                           std::span<const std::uint32_t> state_transfer_to = {});

// Rails that do not use our connections. Every rank gets one if there are several hosts; only those with
// Layout::on_rail() take part in collectives over it. `control` and the layout outlive it.
struct RailKind {
  std::string name;
  std::function<std::unique_ptr<Rail>(const Layout&, OpControl& control)> make;
};
// The same with such rails between hosts. The rails choose topologies and algorithms themselves.
Result<BuildResult> build_hybrid_communicator(const BuildSpec& spec, const RailKind& rails, DataListener& listener,
                                              const CancelToken& cancel,
                                              std::span<const std::uint32_t> state_transfer_from = {},
                                              std::span<const std::uint32_t> state_transfer_to = {});

// Only the connections for state, for a data plane that needs no others.
Result<std::vector<StateSocket>> connect_state(const BuildSpec& spec, DataListener& listener, const CancelToken& cancel,
                                               std::span<const std::uint32_t> from, std::span<const std::uint32_t> to);

}  // namespace elastictrain::comm
