#include "tests/contract/comm/world.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "supervisor/protocol/names.h"
#include "tests/quick_end.h"
#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_communicator.h"

namespace elastictrain::comm::testing {

protocol::Encryption encryption() {
  const char* level = std::getenv("ET_CONTRACT_ENCRYPTION");
  return protocol::encryption_named(level == nullptr ? "" : level).value_or(protocol::Encryption::kNone);
}

std::size_t Shape::size() const {
  return std::accumulate(ranks_per_host.begin(), ranks_per_host.end(), std::size_t{0});
}

Shape shm(std::size_t ranks) {
  return {"shared memory, " + std::to_string(ranks) + " ranks", {ranks}};
}

Shape tcp(std::size_t ranks) {
  return {"TCP only, " + std::to_string(ranks) + " ranks", {ranks}, Transport::kTcpOnly};
}

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes{{"alone", {1}}};
  for (std::size_t ranks = 2; ranks <= 5; ++ranks) {
    shapes.push_back(shm(ranks));
    shapes.push_back(tcp(ranks));
  }
  shapes.push_back({"2 hosts with 2 ranks", {2, 2}});
  shapes.push_back({"3 hosts with 1, 2 and 1 ranks", {1, 2, 1}});
  shapes.push_back({"5 hosts with 1 rank", {1, 1, 1, 1, 1}});
  shapes.push_back({"TCP ring", {4}, Transport::kTcpOnly, Algorithm::kRing});
  shapes.push_back({"TCP tree", {6}, Transport::kTcpOnly, Algorithm::kTree});
  shapes.push_back({"TCP over IPv6", {3}, Transport::kTcpOnly, Algorithm::kAuto, "::1"});
  for (auto& shape : tree_shapes(true)) shapes.push_back(std::move(shape));
  return shapes;
}

std::vector<Shape> tree_shapes(bool also_elsewhere) {
  std::vector<Shape> shapes;
  const auto add = [&](const std::string& name, std::vector<std::size_t> hosts, Transport transport, auto topology) {
    Shape shape{name, std::move(hosts), transport};
    shape.topology = topology;
    shapes.push_back(std::move(shape));
  };
  for (std::size_t i = 1; i < protocol::kTopologyNames.size(); ++i) {
    const auto topology = static_cast<protocol::Topology>(i);
    const std::string name(protocol::name_of(topology));
    add(name + " on hosts of 2, 1 and 2", {2, 1, 2}, Transport::kAuto, topology);
    if (!also_elsewhere) continue;
    add(name + " on one host", {4}, Transport::kAuto, topology);
    add(name + " over TCP only", {5}, Transport::kTcpOnly, topology);
  }
  Shape own{"a tree of one's own", {2, 1, 2}};
  own.parents = {2, 0, 2, 2, 3};
  shapes.push_back(own);
  return shapes;
}

std::vector<Shape> with_tree_shapes(std::vector<Shape> shapes) {
  for (auto& shape : tree_shapes(false)) shapes.push_back(std::move(shape));
  return shapes;
}

World::World(Shape shape) : shape_(std::move(shape)) {
  for (std::size_t host = 0; host < shape_.ranks_per_host.size(); ++host) {
    for (std::size_t i = 0; i < shape_.ranks_per_host[host]; ++i) {
      auto listener = DataListener::open({"host" + std::to_string(host), {shape_.address}});
      if (!listener) panic(listener.error().message.c_str());
      endpoints_.push_back((*listener)->endpoint());
      listeners_.push_back(std::move(*listener));
    }
  }
}

namespace {

// NCCL's communicators end on threads of their own, which a leak check at the end of the process must not meet.
void finish_ends() {
  if (on_devices()) await_nccl_ends(std::chrono::seconds(20));
}

}  // namespace

World::~World() {
  finish_ends();
}

BuildSpec World::spec(std::uint32_t rank, Generation generation) const {
  BuildSpec spec;
  spec.generation = generation;
  spec.token.fill(static_cast<std::uint8_t>(generation));
  spec.rank = rank;
  spec.peers = endpoints_;
  spec.transport = shape_.transport;
  spec.encryption = encryption();
  spec.algorithm = shape_.algorithm;
  spec.topology = shape_.topology;
  spec.parents = shape_.parents;
  spec.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  return spec;
}

namespace {
thread_local int device_ordinal = 0;
}

int device_of_this_thread() {
  return device_ordinal;
}

void use_device_of(std::uint32_t rank) {
  device_ordinal = static_cast<int>(rank);
}

std::unique_ptr<Communicator> World::build(std::uint32_t rank, Generation generation,
                                           std::chrono::milliseconds operation_timeout) {
  use_device_of(rank);
  CancelToken cancel;
  auto wanted = spec(rank, generation);
  wanted.operation_timeout = operation_timeout;
  auto built = build_cpu_communicator(wanted, *listeners_[rank], cancel);
  if (!built) panic(built.error().message.c_str());
  if (!on_devices()) return std::move(built->communicator);
  return over_devices(std::move(built->communicator), wanted);
}

std::vector<std::unique_ptr<Communicator>> World::build_all(Generation generation) {
  std::vector<std::unique_ptr<Communicator>> comms(size());
  std::vector<std::thread> builders;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    builders.emplace_back([&, rank] { comms[rank] = build(rank, generation); });
  }
  for (auto& builder : builders) builder.join();
  return comms;
}

bool on_devices() {
  const char* backend = std::getenv("ET_CONTRACT_BACKEND");
  return backend != nullptr && std::string(backend) == "nccl";
}

std::unique_ptr<Communicator> over_devices(std::unique_ptr<Communicator> host_plane, const BuildSpec& spec) {
  auto device = device::Device::open(device_of_this_thread());
  if (!device) panic(device.error().message.c_str());
  NcclOptions options;
  options.device = *device;
  options.job = "contract";
  options.deadline = spec.deadline;
  options.operation_timeout = spec.operation_timeout;
  CancelToken cancel;
  auto built = build_nccl_communicator(std::move(host_plane), options, cancel);
  if (!built) panic(built.error().message.c_str());
  return std::move(*built);
}

void World::run(const Body& body, Generation generation) {
  std::vector<std::thread> ranks;
  // As in a job, no rank uses a generation before all members have built it: a rank whose body breaks the communicator
  // at once would fail the build of a slower one.
  std::barrier all_built(static_cast<std::ptrdiff_t>(size()));
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    ranks.emplace_back([&, rank] {
      const auto communicator = build(rank, generation);
      all_built.arrive_and_wait();
      body(*communicator);
    });
  }
  for (auto& rank : ranks) rank.join();
}

pid_t fork_rank(const std::function<int()>& body) {
  std::fflush(nullptr);
  // Without the handlers of fork(): the rank uses the listeners of this process (train/comm/socket.h).
  const pid_t pid = ::_Fork();
  if (pid == 0) {
    const int status = body();
    finish_ends();
    elastictrain::testing::end_quickly(status);
  }
  return pid;
}

int join_rank(pid_t pid, std::chrono::milliseconds limit) {
  const int watch = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  pollfd ended{watch, POLLIN, 0};
  const bool in_time = ::poll(&ended, 1, static_cast<int>(limit.count())) > 0;
  ::close(watch);
  if (!in_time) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!in_time) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace elastictrain::comm::testing
