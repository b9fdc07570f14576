// Purpose: the communicator for host memory (shared memory within a host, rails among hosts) and its construction.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/comm/channel.h"
#include "train/comm/communicator.h"
#include "train/comm/data_listener.h"
#include "train/comm/operation.h"
#include "train/comm/rail.h"
#include "train/comm/shm_group.h"
#include "train/comm/socket.h"
#include "train/comm/topology.h"

// The communicator for host memory: shared memory among the ranks of a host, rails among hosts.
//
// A large all-reduce first sums on every host, then every rail sums its slice among the hosts, then the slices are
// distributed on each host. A small one uses the first rank of each host only. All other operations share blocks.
//
// Ownership, threads and failure: see Communicator. break_up() closes all traffic of this rank, so that an error
// reaches every peer within milliseconds.

namespace elastictrain::comm {

struct HybridParts {
  std::string name;                    // the kind of the rails
  bool over_all_ranks = false;         // every rank is on the rail, and collectives go over it alone
  std::unique_ptr<OpControl> control;  // for the other members
  std::unique_ptr<ShmGroup> group;     // null if the host has one rank
  std::unique_ptr<Rail> rail;          // null if this rank is on no rail
};

class HybridCommunicator final : public Communicator {
 public:
  HybridCommunicator(const BuildSpec& spec, Layout layout, HybridParts parts);

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t world_size() const override { return size_; }
  Generation generation() const override { return generation_; }
  Capabilities capabilities() const override;
  Status all_reduce(std::span<float> data, const ReduceOptions& options, ReduceStats* stats) override;
  Status broadcast(std::span<std::byte> data, std::uint32_t root) override;
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  bool reaches(std::uint32_t peer) const override;
  Status send(std::span<const std::byte> data, std::uint32_t to) override;
  Status receive(std::span<std::byte> data, std::uint32_t from) override;
  Status exchange(std::span<const std::byte> sent, std::span<std::byte> received, std::uint32_t peer) override;
  Status barrier() override;
  Status check_peers() override;
  Status check_self() const override;
  void limit_operations(std::chrono::milliseconds timeout) override { control_->limit(timeout); }
  void abort() noexcept override;
  Traffic traffic() const override;
  std::vector<PeerFigures> peers() const override;

 private:
  // Passes a result through; an error breaks the communicator.
  Status settle(Status status);
  Status reduce(const ReduceVector& vector, ReduceStats* stats);
  Status reduce_in_two_levels(const ReduceVector& vector, ReduceStats* stats);
  Status reduce_small_in_two_levels(const ReduceVector& vector);
  Status reduce_large_in_two_levels(const ReduceVector& vector);
  // Block r belongs to rank r.
  Status share(std::span<const Pieces> blocks);
  Status share_among_hosts(std::span<const Pieces> blocks);
  Status share_from_first_local(std::span<const Pieces> blocks);
  Status check_peer(std::uint32_t peer) const;
  Status not_reached(std::uint32_t peer) const;
  std::ptrdiff_t local_index(std::uint32_t rank) const;
  void break_up() noexcept;

  // Every call that moves bytes holds one: their order is the same on all ranks, so there is one at a time.
  class Call {
   public:
    explicit Call(HybridCommunicator& communicator);
    ~Call() { in_call_.store(false, std::memory_order_release); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::atomic<bool>& in_call_;
  };

  const std::uint32_t rank_;
  const std::uint32_t size_;
  const Generation generation_;
  const Layout layout_;
  const std::string name_;
  const bool over_all_ranks_;
  const std::unique_ptr<OpControl> control_;
  const std::unique_ptr<ShmGroup> group_;
  const std::unique_ptr<Rail> rail_;
  std::atomic<bool> broken_{false};
  std::atomic<bool> in_call_{false};
};

// Builds the communicators for host memory: shared memory within a host, TCP or other messages between hosts.
// They have no thread of their own.
//
// The builder runs in the caller's thread (a background thread of the session) and may run while another communicator
// of the same process is in use. It also makes the connections that send state to joiners, because those use the same
// listener and the same generation token: a donor connects, a joiner accepts.
//
// Failure: kTimeout with the names of the missing peers, kAborted after cancel(), kInvalid for an inconsistent plan.
// Nothing is left behind in any case.

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
