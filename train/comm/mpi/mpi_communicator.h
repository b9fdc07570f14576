// Purpose: the communicator of a generation whose members are ranks of one MPI launch: our collectives over MPI's
// messages between hosts, and its construction.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "train/comm/cpu_communicator.h"
#include "train/comm/mpi/mpi_channel.h"
#include "train/comm/mpi/mpi_world.h"
#include "train/comm/rail.h"
#include "train/comm/topology.h"

// MPI's messages between hosts: our collectives among ranks of one MPI launch.
//
// We use our own collectives because MPI's cannot be aborted when a member is lost, do not guarantee equal bits, and
// need a communicator whose construction can hang. Small sums use recursive doubling, large ones a ring
// (mpi_message.h), and a block for all other ranks a binary tree.
//
// Ownership, threads and failure: see rail.h. MPI does not detect a lost member. The supervisor's Abort ends the waits
// for it, and a rank that aborts notifies the others.

namespace elastictrain::comm {

class MpiRail final : public Rail {
 public:
  // `members`: index = rank of the generation, value = rank of the launch. Any two of them can send to each other.
  MpiRail(MpiWorld& world, const BuildSpec& spec, const Layout& layout, Ranks members, OpControl& control);

  void watch(int fd, std::function<Status()> on_ready) override;
  Status all_reduce(const ReduceVector& vector, ReduceStats* stats) override;
  Status share(std::span<const Pieces> blocks) override;
  bool reaches(std::uint32_t peer) const override;
  Status send(std::uint32_t peer, std::span<const std::byte> data) override;
  Status receive(std::uint32_t peer, std::span<std::byte> data) override;
  Status exchange(std::uint32_t peer, std::span<const std::byte> sent, std::span<std::byte> received) override;
  Status check_peers() const override;
  void shut_down() noexcept override;
  Traffic traffic() const override;
  std::vector<PeerFigures> peers() const override;

 private:
  Ranks launch_ranks(const Ranks& ranks) const;
  Status reduce(const ReduceVector& vector);
  Status reduce_by_doubling(const ReduceVector& vector);
  Status reduce_around_ring(const ReduceVector& vector, std::size_t segment);
  // Sends `sum` and adds the partner's to it.
  Result<MpiMessagePtr> exchange_sums(MpiMessagePtr sum, std::uint32_t partner, std::size_t count);
  Status share_around_ring(std::span<const Pieces> blocks);
  Status spread(const Pieces& data, std::uint32_t root);
  Status receive_down_the_tree(const Pieces& data, std::uint32_t root);
  Status send_down_the_tree(const Pieces& data, std::uint32_t segment, std::uint32_t root);

  const Generation generation_;
  const std::uint32_t rank_;
  const Ranks rail_;  // only this rank if it is on no rail
  const std::uint32_t position_;
  const std::uint32_t size_;
  MpiWorld& world_;
  const Ranks members_;
  MpiChannel channel_;  // among the positions of the rail
  MpiChannel direct_;   // between any two members
  std::atomic<bool> reported_{false};
};

// Builds the communicator of a generation whose members are ranks of one MPI launch: shared memory within a
// host, MPI's messages between hosts.
//
// As in cpu_communicator.h; state still reaches joiners over separate connections. `members`: the peers' ranks in the
// launch. The world outlives the communicator.

Result<BuildResult> build_mpi_communicator(const BuildSpec& spec, MpiWorld& world, Ranks members,
                                           DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from = {},
                                           std::span<const std::uint32_t> state_transfer_to = {});

}  // namespace elastictrain::comm
