// Purpose: the communicator of a world of one, so that a program without a launcher, and a run with one worker, take
// the same path through the session as any other.
//
// Ownership, thread: as comm::Communicator. Failure: only after abort().
#pragma once

#include <atomic>

#include "train/comm/communicator.h"

namespace elastictrain::session {

class SoloCommunicator final : public comm::Communicator {
 public:
  explicit SoloCommunicator(Generation generation) : generation_(generation) {}

  std::uint32_t rank() const override { return 0; }
  std::uint32_t world_size() const override { return 1; }
  Generation generation() const override { return generation_; }
  comm::Capabilities capabilities() const override;

  Status all_reduce(std::span<float> data, const comm::ReduceOptions& options, comm::ReduceStats* stats) override;
  Status broadcast(std::span<std::byte> data, std::uint32_t root) override;
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  bool reaches(std::uint32_t) const override { return false; }
  Status send(std::span<const std::byte> data, std::uint32_t to) override;
  Status receive(std::span<std::byte> data, std::uint32_t from) override;
  Status barrier() override;
  void abort() noexcept override { aborted_.store(true); }
  comm::Traffic traffic() const override { return {}; }
  std::vector<comm::PeerFigures> peers() const override { return {}; }

 private:
  Status check() const;
  Generation generation_;
  std::atomic<bool> aborted_{false};
};

}  // namespace elastictrain::session
