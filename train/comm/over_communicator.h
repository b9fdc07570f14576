// Purpose: a communicator that wraps another one of the same generation, adds to it and forwards everything else.
// Ownership: the inner communicator. Thread, failure: as Communicator.
#pragma once

#include <memory>
#include <utility>

#include "train/comm/communicator.h"

namespace elastictrain::comm {

class OverCommunicator : public Communicator {
 public:
  std::uint32_t rank() const override { return host_->rank(); }
  std::uint32_t world_size() const override { return host_->world_size(); }
  Generation generation() const override { return host_->generation(); }
  Capabilities capabilities() const override { return host_->capabilities(); }
  Status all_reduce(std::span<float> data, const ReduceOptions& options, ReduceStats* stats) override {
    return passed_on(host_->all_reduce(data, options, stats));
  }
  Status broadcast(std::span<std::byte> data, std::uint32_t root) override {
    return passed_on(host_->broadcast(data, root));
  }
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    return passed_on(host_->all_gather(mine, all));
  }
  bool reaches(std::uint32_t peer) const override { return host_->reaches(peer); }
  Status send(std::span<const std::byte> data, std::uint32_t to) override { return passed_on(host_->send(data, to)); }
  Status receive(std::span<std::byte> data, std::uint32_t from) override {
    return passed_on(host_->receive(data, from));
  }
  Status exchange(std::span<const std::byte> sent, std::span<std::byte> received, std::uint32_t peer) override {
    return passed_on(host_->exchange(sent, received, peer));
  }
  Status barrier() override { return passed_on(host_->barrier()); }
  Status check_peers() override { return host_->check_peers(); }
  void limit_operations(std::chrono::milliseconds timeout) override { host_->limit_operations(timeout); }
  void abort() noexcept override { host_->abort(); }
  Traffic traffic() const override { return host_->traffic(); }
  std::vector<PeerFigures> peers() const override { return host_->peers(); }

 protected:
  explicit OverCommunicator(std::unique_ptr<Communicator> host) : host_(std::move(host)) {}
  // Checks a result of the inner communicator.
  virtual Status passed_on(Status status) { return status; }

  std::unique_ptr<Communicator> host_;
};

}  // namespace elastictrain::comm
