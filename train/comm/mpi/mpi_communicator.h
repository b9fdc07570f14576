// Purpose: the data plane of a generation whose members are ranks of one MPI launch: MPI's messages, our collectives.
//
// Our own, because MPI's cannot be given up when a member is lost, promise no equal bits, and a communicator of theirs
// can hang while it is built. Small sums double along pairs, large ones go around a ring, blocks go down a binary tree.
//
// Ownership, threads and failure: as communicator.h says. A lost member is not noticed by MPI; the supervisor's Abort
// ends what waits for it, and whoever gives up tells the others.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "train/comm/cpu_communicator.h"
#include "train/comm/mpi/mpi_channel.h"
#include "train/comm/pieces.h"

namespace elastictrain::comm {

class MpiCommunicator final : public Communicator {
 public:
  // `members`: index = rank of the generation, value = rank of the launch.
  MpiCommunicator(const BuildSpec& spec, MpiWorld& world, std::vector<std::uint32_t> members);

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t world_size() const override { return size_; }
  Generation generation() const override { return generation_; }
  Capabilities capabilities() const override;
  Status all_reduce(std::span<float> data, const ReduceOptions& options, ReduceStats* stats) override;
  Status broadcast(std::span<std::byte> data, std::uint32_t root) override;
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  bool reaches(std::uint32_t peer) const override { return peer < size_ && peer != rank_; }
  Status send(std::span<const std::byte> data, std::uint32_t to) override;
  Status receive(std::span<std::byte> data, std::uint32_t from) override;
  Status barrier() override;
  void abort() noexcept override;
  Traffic traffic() const override;
  std::vector<PeerFigures> peers() const override;

 private:
  Status usable() const;
  // Passes a result through; an error breaks the communicator.
  Status settle(Status status);
  Status reduce(const ReduceVector& vector);
  Status reduce_by_doubling(const ReduceVector& vector);
  Status reduce_around_ring(const ReduceVector& vector);
  // Sends `sum` and gets the partner's added to it.
  Result<MpiMessagePtr> exchange(MpiMessagePtr sum, std::uint32_t partner, std::size_t count);
  Status receive_down_the_tree(std::span<std::byte> data, std::uint32_t root);
  Status send_down_the_tree(std::span<const std::byte> data, std::uint32_t segment, std::uint32_t root);
  Status check_peer(std::uint32_t peer) const;

  const std::uint32_t rank_;
  const std::uint32_t size_;
  const Generation generation_;
  const bool threads_may_call_;
  OpControl control_;
  MpiChannel channel_;
  std::atomic<bool> broken_{false};
};

// As build_cpu_communicator(): state still reaches joiners over connections of their own. `members`:
// the peers' ranks of the launch.
Result<BuildResult> build_mpi_communicator(const BuildSpec& spec, MpiWorld& world, std::vector<std::uint32_t> members,
                                           DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from = {},
                                           std::span<const std::uint32_t> state_transfer_to = {});

}  // namespace elastictrain::comm
