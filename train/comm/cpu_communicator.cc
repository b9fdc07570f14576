#include "train/comm/cpu_communicator.h"

#include <algorithm>

#include "train/comm/hybrid_communicator.h"
#include "train/comm/rendezvous.h"

namespace elastictrain::comm {
namespace {

class Builder {
 public:
  Builder(const BuildSpec& spec, DataListener& listener, const CancelToken& cancel)
      : spec_(spec),
        listener_(listener),
        cancel_(cancel),
        topology_(make_topology(spec.peers, spec.rank, spec.transport)) {}

  Result<BuildResult> build(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to) {
    plan_ = {spec_.generation, spec_.token, spec_.rank, {}, {}};
    plan_links();
    plan_shared_memory();
    for (const auto rank : from) plan_.incoming.push_back({Purpose::kStateTransfer, rank});
    for (const auto rank : to) connect(Purpose::kStateTransfer, rank, spec_.transport == Transport::kAuto);
    auto sockets = rendezvous(plan_, listener_, cancel_, spec_.deadline);
    if (!sockets) return sockets.error();
    sort_out(*sockets);
    return assemble();
  }

 private:
  void connect(Purpose purpose, std::uint32_t rank, bool may_use_unix) {
    const auto& endpoint = spec_.peers[rank];
    const bool same_host = may_use_unix && endpoint.host_key == spec_.peers[spec_.rank].host_key;
    plan_.outgoing.push_back({purpose, rank, endpoint, same_host});
  }

  // Of two ranks with a link the higher one connects.
  void plan_links() {
    for (const auto& link : needed_links(topology_, spec_.algorithm)) {
      if (link.peer_rank < spec_.rank) {
        connect(link.purpose, link.peer_rank, false);
      } else {
        plan_.incoming.push_back({link.purpose, link.peer_rank});
      }
    }
  }

  void plan_shared_memory() {
    const auto& locals = topology_.local_ranks();
    if (topology_.local > 0) return connect(Purpose::kShmGroup, locals.front(), true);
    for (std::size_t i = 1; i < locals.size(); ++i) plan_.incoming.push_back({Purpose::kShmGroup, locals[i]});
  }

  void sort_out(std::vector<PeerSocket>& sockets) {
    std::sort(sockets.begin(), sockets.end(), [](const auto& a, const auto& b) { return a.peer_rank < b.peer_rank; });
    for (auto& peer : sockets) {
      switch (peer.purpose) {
        case Purpose::kShmGroup:
          locals_.push_back(std::move(peer.socket));
          break;
        case Purpose::kStateTransfer:
          result_.state_sockets.push_back({peer.peer_rank, peer.accepted, std::move(peer.socket)});
          break;
        case Purpose::kRingLink:
        case Purpose::kTreeLink:
          links_.emplace_back(std::move(peer.socket), peer.peer_rank);
          break;
      }
    }
  }

  Result<BuildResult> assemble() {
    auto control = std::make_unique<OpControl>(spec_.operation_timeout, topology_.ranks_on_machine);
    std::unique_ptr<ShmGroup> group;
    const std::size_t locals = topology_.local_ranks().size();
    if (locals > 1) {
      auto built = ShmGroup::build(topology_.local, locals, std::move(locals_), *control, cancel_, spec_.deadline);
      if (!built) return built.error();
      group = std::move(*built);
    }
    std::unique_ptr<TcpRail> rail;
    if (topology_.on_rail()) {
      rail = std::make_unique<TcpRail>(topology_.rail_ranks(topology_.local), topology_.host, std::move(links_),
                                       spec_.algorithm, *control);
    }
    result_.communicator = std::make_unique<HybridCommunicator>(spec_, std::move(topology_), std::move(control),
                                                                std::move(group), std::move(rail));
    return std::move(result_);
  }

  const BuildSpec& spec_;
  DataListener& listener_;
  const CancelToken& cancel_;
  Topology topology_;
  RendezvousPlan plan_;
  std::vector<Socket> locals_;
  std::vector<Link> links_;
  BuildResult result_;
};

bool ranks_are_peers(std::span<const std::uint32_t> ranks, const BuildSpec& spec) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](auto rank) { return rank < spec.peers.size() && rank != spec.rank; });
}

}  // namespace

Result<BuildResult> build_cpu_communicator(const BuildSpec& spec, DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from,
                                           std::span<const std::uint32_t> state_transfer_to) {
  if (spec.rank >= spec.peers.size() || !ranks_are_peers(state_transfer_from, spec) ||
      !ranks_are_peers(state_transfer_to, spec)) {
    return Error{ErrorCode::kInvalid,
                 "the plan of generation " + std::to_string(spec.generation) + " names ranks that it does not have"};
  }
  return Builder(spec, listener, cancel).build(state_transfer_from, state_transfer_to);
}

}  // namespace elastictrain::comm
