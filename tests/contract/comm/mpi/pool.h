// Purpose: the ranks of one MPI launch as members of generations, for tests in which every rank runs the same cases.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "train/comm/mpi/mpi_communicator.h"

namespace elastictrain::comm::testing {

// The placement of a generation's members: which ranks share memory, and which exchange messages.
enum class Placement { kOneMachine, kTwoMachines, kApart };

class Pool {
 public:
  // The pool of this process. Without MPI it ends the process with a message.
  static Pool& here();

  std::uint32_t rank() const { return world_->rank(); }
  std::uint32_t size() const { return world_->size(); }
  MpiWorld& world() { return *world_; }

  // The next generation, equal at all ranks with the same count. `members` are ranks of the pool and include this one.
  std::unique_ptr<Communicator> build(const Ranks& members, Placement placement,
                                      std::chrono::milliseconds operation_timeout = std::chrono::seconds(20));
  // A generation that this rank is not a member of.
  void skip_generation() { ++generation_; }

  // Runs `body` at the first `members` ranks, each with a fresh communicator; all ranks of the pool meet afterwards.
  using Body = std::function<void(Communicator&)>;
  void run(std::uint32_t members, Placement placement, const Body& body,
           std::chrono::milliseconds operation_timeout = std::chrono::seconds(20));
  // For every placement and every size from `min` to that of the pool.
  void run_at_all_sizes(const Body& body, std::uint32_t min = 1);
  void meet();

 private:
  explicit Pool(MpiWorld* world);
  // Exchanges the listening addresses of all ranks.
  void exchange_endpoints();

  MpiWorld* world_;
  std::unique_ptr<DataListener> listener_;
  std::vector<protocol::Endpoint> endpoints_;  // index = rank of the pool
  Generation generation_ = 0;
};

Ranks first_ranks(std::uint32_t count);

}  // namespace elastictrain::comm::testing
