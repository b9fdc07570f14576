// Our CPU communicator in the common timing loop.
#include <memory>
#include <string>
#include <vector>

#include "fork_ranks.h"
#include "options.h"
#include "supervisor/protocol/names.h"
#include "train/comm/cpu_communicator.h"

namespace elastictrain::bench {
namespace {

using Listeners = std::vector<std::unique_ptr<comm::DataListener>>;

Listeners open_listeners(const Options& options) {
  Listeners listeners;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const int host = rank * options.hosts / options.ranks;
    auto listener = comm::DataListener::open({"host" + std::to_string(host), {}});
    if (!listener) panic(listener.error().message.c_str());
    listeners.push_back(std::move(*listener));
  }
  return listeners;
}

std::unique_ptr<comm::Communicator> build(const Options& options, Listeners& listeners, int rank) {
  comm::BuildSpec spec;
  spec.generation = 1;
  spec.rank = static_cast<std::uint32_t>(rank);
  for (const auto& listener : listeners) spec.peers.push_back(listener->endpoint());
  spec.transport = options.tcp_only ? comm::Transport::kTcpOnly : comm::Transport::kAuto;
  if (options.algorithm == "ring") spec.algorithm = comm::Algorithm::kRing;
  if (options.algorithm == "tree") spec.algorithm = comm::Algorithm::kTree;
  const auto topology = protocol::topology_named(options.topology);
  if (!topology) panic("--topology names none that there is");
  spec.topology = *topology;
  const auto encryption = protocol::encryption_named(options.encryption);
  if (!encryption) panic("--encryption names no level");
  spec.encryption = *encryption;
  spec.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  comm::CancelToken cancel;
  auto built = build_cpu_communicator(spec, *listeners[static_cast<std::size_t>(rank)], cancel);
  if (!built) panic(built.error().message.c_str());
  return std::move(built->communicator);
}

int run_rank(const Options& options, Listeners& listeners, int rank) {
  const auto communicator = build(options, listeners, rank);
  run_loop(options.loop, rank, [&](float* data, std::size_t count) {
    const auto status = communicator->all_reduce({data, count});
    if (!status) panic(status.error().message.c_str());
  });
  return 0;
}

}  // namespace
}  // namespace elastictrain::bench

int main(int argc, char** argv) {
  using namespace elastictrain::bench;
  const auto options = parse_options(argc, argv);
  auto listeners = open_listeners(options);
  return fork_ranks(options.ranks, [&](int rank) { return run_rank(options, listeners, rank); });
}
