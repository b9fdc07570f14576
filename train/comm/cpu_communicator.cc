#include "train/comm/cpu_communicator.h"

#include <algorithm>
#include <optional>

#include "train/comm/hybrid_communicator.h"
#include "train/comm/rendezvous.h"
#include "train/comm/tcp_rail.h"
#include "train/comm/tree_plan.h"

namespace elastictrain::comm {
namespace {

class Builder {
 public:
  // `rails`: null for TCP.
  Builder(const BuildSpec& spec, const RailKind* rails, DataListener& listener, const CancelToken& cancel)
      : spec_(spec),
        rails_(rails),
        listener_(listener),
        cancel_(cancel),
        layout_(make_layout(spec.peers, spec.rank, spec.transport)),
        trees_(rails == nullptr ? make_tree_layout(spec.topology, spec.parents, layout_, spec.rank) : std::nullopt),
        plan_{spec.generation, spec.token, spec.rank, spec.encryption, {}, {}} {}

  Result<BuildResult> build(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to) {
    // Trees over hosts use one connection between two hosts.
    if (trees_) layout_.rails = std::min<std::size_t>(layout_.rails, 1);
    plan_links();
    plan_shared_memory();
    if (auto status = meet(from, to); !status) return status.error();
    return assemble();
  }

  Result<std::vector<StateSocket>> connect_state(std::span<const std::uint32_t> from,
                                                 std::span<const std::uint32_t> to) {
    if (auto status = meet(from, to); !status) return status.error();
    return std::move(result_.state_sockets);
  }

 private:
  Status meet(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to) {
    for (const auto rank : from) plan_.incoming.push_back({Purpose::kStateTransfer, rank});
    for (const auto rank : to) connect(Purpose::kStateTransfer, rank, spec_.transport == Transport::kAuto);
    auto sockets = rendezvous(plan_, listener_, cancel_, spec_.deadline);
    if (!sockets) return sockets.error();
    sort_out(*sockets);
    return {};
  }

  void connect(Purpose purpose, std::uint32_t rank, bool may_use_unix) {
    const auto& endpoint = spec_.peers[rank];
    const bool same_host = may_use_unix && endpoint.host_key == spec_.peers[spec_.rank].host_key;
    plan_.outgoing.push_back({purpose, rank, endpoint, same_host});
  }

  // Tree edges within a host use a Unix connection: shared memory serves only operations of all ranks of the host.
  std::vector<LinkSpec> wanted_links() const {
    if (rails_ != nullptr) return {};
    if (!trees_) return needed_links(layout_, spec_.algorithm);
    std::vector<LinkSpec> links;
    if (!trees_->plan) return links;
    for (const auto position : trees_->plan->neighbours()) {
      links.push_back({trees_->plan->members[position], Purpose::kTreeLink});
    }
    return links;
  }

  // Of two ranks with a link the higher one connects.
  void plan_links() {
    const bool may_use_unix = trees_.has_value() && spec_.transport == Transport::kAuto;
    for (const auto& link : wanted_links()) {
      if (link.peer_rank < spec_.rank) {
        connect(link.purpose, link.peer_rank, may_use_unix);
      } else {
        plan_.incoming.push_back({link.purpose, link.peer_rank});
      }
    }
  }

  void plan_shared_memory() {
    const auto& locals = layout_.local_ranks();
    if (layout_.local > 0) return connect(Purpose::kShmGroup, locals.front(), true);
    for (std::size_t i = 1; i < locals.size(); ++i) plan_.incoming.push_back({Purpose::kShmGroup, locals[i]});
  }

  void sort_out(std::vector<PeerSocket>& sockets) {
    std::sort(sockets.begin(), sockets.end(), [](const auto& a, const auto& b) { return a.peer_rank < b.peer_rank; });
    for (auto& peer : sockets) {
      switch (peer.purpose) {
        case Purpose::kShmGroup:
          locals_.push_back(std::move(peer.channel).take_socket());
          break;
        case Purpose::kStateTransfer:
          result_.state_sockets.push_back({peer.peer_rank, peer.accepted, std::move(peer.channel)});
          break;
        case Purpose::kRingLink:
        case Purpose::kTreeLink:
          links_.emplace_back(std::move(peer.channel), peer.peer_rank);
          break;
        case Purpose::kStore:  // in no plan of a generation
          break;
      }
    }
  }

  Result<BuildResult> assemble() {
    HybridParts parts;
    parts.name = rails_ != nullptr ? rails_->name : "cpu";
    parts.over_all_ranks = trees_ ? trees_->over_all_ranks : layout_.hosts.size() == spec_.peers.size();
    parts.control = std::make_unique<OpControl>(spec_.operation_timeout, layout_.ranks_on_machine, spec_.processors);
    const std::size_t locals = layout_.local_ranks().size();
    if (locals > 1) {
      auto group = ShmGroup::build(layout_.local, locals, std::move(locals_), *parts.control, cancel_, spec_.deadline);
      if (!group) return group.error();
      parts.group = std::move(*group);
    }
    parts.rail = make_rail(*parts.control);
    result_.communicator = std::make_unique<HybridCommunicator>(spec_, std::move(layout_), std::move(parts));
    return std::move(result_);
  }

  std::unique_ptr<Rail> make_rail(OpControl& control) {
    if (rails_ != nullptr) return layout_.hosts.size() > 1 ? rails_->make(layout_, control) : nullptr;
    if (trees_ && trees_->plan) {
      const TreePlan& plan = *trees_->plan;
      auto rail = std::make_unique<TcpRail>(plan.members, plan.position, std::move(links_), spec_.algorithm, control);
      rail->use_trees(plan);
      return rail;
    }
    if (trees_ || !layout_.on_rail()) return nullptr;
    return std::make_unique<TcpRail>(layout_.rail_ranks(layout_.local), layout_.host, std::move(links_),
                                     spec_.algorithm, control);
  }

  const BuildSpec& spec_;
  const RailKind* const rails_;
  DataListener& listener_;
  const CancelToken& cancel_;
  Layout layout_;
  const std::optional<TreeLayout> trees_;
  RendezvousPlan plan_;
  std::vector<Socket> locals_;
  std::vector<Link> links_;
  BuildResult result_;
};

bool ranks_are_peers(std::span<const std::uint32_t> ranks, const BuildSpec& spec) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](auto rank) { return rank < spec.peers.size() && rank != spec.rank; });
}

Status check(const BuildSpec& spec, std::span<const std::uint32_t> from, std::span<const std::uint32_t> to) {
  if (spec.rank < spec.peers.size() && ranks_are_peers(from, spec) && ranks_are_peers(to, spec)) return {};
  return Error{ErrorCode::kInvalid, "the plan of generation " + std::to_string(spec.generation) +
                                        " refers to ranks that it does not contain"};
}

}  // namespace

Result<BuildResult> build_cpu_communicator(const BuildSpec& spec, DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from,
                                           std::span<const std::uint32_t> state_transfer_to) {
  if (auto status = check(spec, state_transfer_from, state_transfer_to); !status) return status.error();
  if (!spec.parents.empty()) {
    if (auto tree = protocol::check_tree(spec.parents, spec.peers.size()); !tree) return tree.error();
  }
  return Builder(spec, nullptr, listener, cancel).build(state_transfer_from, state_transfer_to);
}

Result<BuildResult> build_hybrid_communicator(const BuildSpec& spec, const RailKind& rails, DataListener& listener,
                                              const CancelToken& cancel,
                                              std::span<const std::uint32_t> state_transfer_from,
                                              std::span<const std::uint32_t> state_transfer_to) {
  if (auto status = check(spec, state_transfer_from, state_transfer_to); !status) return status.error();
  return Builder(spec, &rails, listener, cancel).build(state_transfer_from, state_transfer_to);
}

Result<std::vector<StateSocket>> connect_state(const BuildSpec& spec, DataListener& listener, const CancelToken& cancel,
                                               std::span<const std::uint32_t> from, std::span<const std::uint32_t> to) {
  if (auto status = check(spec, from, to); !status) return status.error();
  return Builder(spec, nullptr, listener, cancel).connect_state(from, to);
}

}  // namespace elastictrain::comm
