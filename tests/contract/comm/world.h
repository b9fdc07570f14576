// Purpose: several ranks of one generation inside one test: as threads, or as forked processes that can be killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/comm/cpu_communicator.h"

namespace elastictrain::comm::testing {

struct Shape {
  std::string name;
  std::vector<std::size_t> ranks_per_host;
  Transport transport = Transport::kAuto;
  Algorithm algorithm = Algorithm::kAuto;
  std::string address = "127.0.0.1";
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<std::uint32_t> parents;
  std::size_t size() const;
};

// Every layout that the contract must hold for.
std::vector<Shape> all_shapes();
// The topologies that a user can choose, each on several hosts; with `also_elsewhere` also on one host and without
// shared memory.
std::vector<Shape> tree_shapes(bool also_elsewhere);
std::vector<Shape> with_tree_shapes(std::vector<Shape> shapes);
Shape shm(std::size_t ranks);
Shape tcp(std::size_t ranks);

// The listeners of all ranks, used for several generations.
class World {
 public:
  explicit World(Shape shape);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  BuildSpec spec(std::uint32_t rank, Generation generation = 1) const;
  DataListener& listener(std::uint32_t rank) { return *listeners_[rank]; }
  const Shape& shape() const { return shape_; }
  std::size_t size() const { return listeners_.size(); }

  // Builds this rank's communicator; ends the test program with a message if that fails.
  std::unique_ptr<Communicator> build(std::uint32_t rank, Generation generation = 1,
                                      std::chrono::milliseconds operation_timeout = std::chrono::seconds(20));

  // Builds the communicators of all ranks at the same time.
  std::vector<std::unique_ptr<Communicator>> build_all(Generation generation = 1);

  // Runs `body` for every rank on a thread of its own, each with a new communicator.
  using Body = std::function<void(Communicator&)>;
  void run(const Body& body, Generation generation = 1);

 private:
  Shape shape_;
  std::vector<std::unique_ptr<DataListener>> listeners_;
  std::vector<protocol::Endpoint> endpoints_;
};

// The level at which a World protects its connections: ET_CONTRACT_ENCRYPTION, or none.
protocol::Encryption encryption();

// The suite runs over NCCL (ET_CONTRACT_BACKEND=nccl): every communicator of a World reaches its rank's device as well.
bool on_devices();
// The device of the calling thread: that of the rank whose communicator it has built last. Ranks that are threads would
// wait for each other at every implicit synchronization of one that they share.
int device_of_this_thread();
void use_device_of(std::uint32_t rank);
std::unique_ptr<Communicator> over_devices(std::unique_ptr<Communicator> host_plane, const BuildSpec& spec);

// Runs `body` in a forked process. Its exit status is the return value of body.
pid_t fork_rank(const std::function<int()>& body);
// Waits for the end of a forked rank; -1 after `limit`, -signal if it was killed. Never leaves a process behind.
int join_rank(pid_t pid, std::chrono::milliseconds limit = std::chrono::seconds(20));

}  // namespace elastictrain::comm::testing
