#include "train/comm/cpu_communicator.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "supervisor/protocol/check.h"
#include "train/comm/blocks.h"
#include "train/comm/kernels.h"
#include "train/comm/rendezvous.h"
#include "train/comm/tcp_rail.h"
#include "train/comm/topology.h"

namespace elastictrain::comm {
namespace {

// Below this size only one rank of each host communicates between hosts.
constexpr std::size_t kSmallTwoLevelBytes = 64 << 10;

}  // namespace

HybridCommunicator::HybridCommunicator(const BuildSpec& spec, Layout layout, HybridParts parts)
    : rank_(spec.rank),
      size_(static_cast<std::uint32_t>(spec.peers.size())),
      generation_(spec.generation),
      layout_(std::move(layout)),
      name_(std::move(parts.name)),
      over_all_ranks_(parts.over_all_ranks),
      control_(std::move(parts.control)),
      group_(std::move(parts.group)),
      rail_(std::move(parts.rail)) {
  ET_CHECK(rank_ < size_, "a rank is a member of its generation");
  ET_CHECK(layout_.local_ranks().at(layout_.local) == rank_, "a rank knows its place on its host");
  ET_CHECK(control_ != nullptr, "a communicator can be aborted");
  ET_CHECK((group_ != nullptr) == (layout_.local_ranks().size() > 1), "the ranks of one host share memory");
  const bool needs_rail = layout_.hosts.size() > 1 && (over_all_ranks_ || layout_.local == 0 || layout_.on_rail());
  ET_CHECK(rail_ != nullptr || !needs_rail, "a rank that carries bytes between hosts is on a rail");
  if (group_ && rail_) rail_->watch(group_->watch_fd(), [this] { return group_->check(); });
}

HybridCommunicator::Call::Call(HybridCommunicator& communicator) : in_call_(communicator.in_call_) {
  const bool is_second = in_call_.exchange(true, std::memory_order_acquire);
  ET_CHECK(!is_second, "a communicator makes one call at a time");
}

Capabilities HybridCommunicator::capabilities() const {
  Capabilities capabilities;
  capabilities.name = name_;
  return capabilities;
}

Status HybridCommunicator::check_self() const {
  if (control_->aborted()) return Error{ErrorCode::kAborted, "the communicator was aborted"};
  if (broken_) return Error{ErrorCode::kPeerLost, "the communicator is broken by an earlier error"};
  return {};
}

Status HybridCommunicator::settle(Status status) {
  if (status) [[likely]]
    return status;
  break_up();
  // A blocked call may see an abort as a closed socket; the cause is the abort.
  if (control_->aborted()) return Error{ErrorCode::kAborted, "the operation was aborted"};
  return status;
}

void HybridCommunicator::break_up() noexcept {
  broken_ = true;
  if (group_) group_->break_up();
  if (rail_) rail_->shut_down();
}

void HybridCommunicator::abort() noexcept {
  control_->request_abort();
  break_up();
}

Traffic HybridCommunicator::traffic() const {
  Traffic traffic = rail_ ? rail_->traffic() : Traffic();
  if (group_) traffic.bytes_shared = group_->shared_bytes();
  return traffic;
}

std::vector<PeerFigures> HybridCommunicator::peers() const {
  return rail_ ? rail_->peers() : std::vector<PeerFigures>();
}

Status HybridCommunicator::all_reduce(std::span<float> data, const ReduceOptions& options, ReduceStats* stats) {
  const Call call(*this);
  if (!options.keep.empty() && options.keep.size() != data.size()) {
    return settle(Error{ErrorCode::kInvalid, "all_reduce: `keep` must be empty or as long as the data"});
  }
  const ReduceVector vector(data, options.lane, options.scale, options.keep, options.element);
  if (auto status = check_self(); !status) {
    vector.keep_all();
    return status;
  }
  control_->begin();
  ReduceStats* wanted = options.want_norms ? stats : nullptr;
  if (wanted != nullptr) *wanted = {};
  return settle(reduce(vector, wanted));
}

Status HybridCommunicator::reduce(const ReduceVector& vector, ReduceStats* stats) {
  if (rail_ && over_all_ranks_) return rail_->all_reduce(vector, stats);
  if (layout_.hosts.size() > 1) return reduce_in_two_levels(vector, stats);
  if (group_) return group_->all_reduce(vector, stats);
  vector.for_runs(0, vector.size(), [&](const auto& run, std::size_t) {
    run.keep_input();
    if (stats != nullptr && run.is_data) stats->local_square_sum += square_sum(run.values, run.count);
    scale_in_place(run.values, run.count, run.scale);
    if (stats != nullptr && run.is_data) stats->reduced_square_sum += square_sum(run.values, run.count);
  });
  return {};
}

Status HybridCommunicator::reduce_in_two_levels(const ReduceVector& vector, ReduceStats* stats) {
  ReduceVector summed = vector;
  if (group_) {
    ReduceStats local;
    if (auto status = group_->all_reduce(vector, stats != nullptr ? &local : nullptr); !status) return status;
    if (stats != nullptr) stats->local_square_sum = local.local_square_sum;
    summed = vector.reduced();
  } else if (stats != nullptr) {
    stats->local_square_sum = data_square_sum(vector);
  }
  const bool small = vector.size() * sizeof(float) <= kSmallTwoLevelBytes;
  auto status = small ? reduce_small_in_two_levels(summed) : reduce_large_in_two_levels(summed);
  if (!status || stats == nullptr) return status;
  stats->reduced_square_sum = data_square_sum(vector);
  return status;
}

Status HybridCommunicator::reduce_small_in_two_levels(const ReduceVector& vector) {
  if (layout_.local == 0) {
    if (auto status = rail_->all_reduce(vector, nullptr); !status) return status;
  }
  if (!group_) return {};
  std::vector<Pieces> blocks(layout_.local_ranks().size());
  blocks[0] = vector.bytes();
  return group_->share(blocks);
}

Status HybridCommunicator::reduce_large_in_two_levels(const ReduceVector& vector) {
  const auto slice_of = [&](std::size_t rail) {
    return vector.slice(part_begin(vector.size(), layout_.rails, rail),
                        part_begin(vector.size(), layout_.rails, rail + 1));
  };
  if (layout_.on_rail()) {
    if (auto status = rail_->all_reduce(slice_of(layout_.local), nullptr); !status) return status;
  }
  if (!group_) return {};
  std::vector<Pieces> blocks(layout_.local_ranks().size());
  for (std::size_t rail = 0; rail < layout_.rails; ++rail) blocks[rail] = slice_of(rail).bytes();
  return group_->share(blocks);
}

Status HybridCommunicator::broadcast(std::span<std::byte> data, std::uint32_t root) {
  const Call call(*this);
  if (auto status = check_self(); !status) return status;
  if (root >= size_)
    return Error{ErrorCode::kInvalid, "broadcast from rank " + std::to_string(root) + ": no such rank"};
  control_->begin();
  std::vector<Pieces> blocks(size_);
  blocks[root].add(data);
  return settle(share(blocks));
}

Status HybridCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const Call call(*this);
  if (auto status = check_self(); !status) return status;
  if (all.size() != mine.size() * size_) {
    return settle(Error{ErrorCode::kInvalid, "all_gather needs room for one block of every rank"});
  }
  control_->begin();
  std::vector<Pieces> blocks(size_);
  for (std::size_t rank = 0; rank < size_; ++rank) blocks[rank].add(all.subspan(rank * mine.size(), mine.size()));
  if (!mine.empty()) std::memmove(all.data() + rank_ * mine.size(), mine.data(), mine.size());
  return settle(share(blocks));
}

// First among the ranks of each host, then among the hosts, then from the first rank of a host to the others.
Status HybridCommunicator::share(std::span<const Pieces> blocks) {
  if (rail_ && over_all_ranks_) return rail_->share(blocks);
  if (group_) {
    std::vector<Pieces> local;
    for (const auto rank : layout_.local_ranks()) local.push_back(blocks[rank]);
    if (auto status = group_->share(local); !status) return status;
  }
  if (layout_.hosts.size() == 1) return {};
  if (layout_.local == 0) {
    if (auto status = share_among_hosts(blocks); !status) return status;
  }
  return group_ ? share_from_first_local(blocks) : Status();
}

Status HybridCommunicator::share_among_hosts(std::span<const Pieces> blocks) {
  std::vector<Pieces> of_hosts;
  for (const auto& ranks : layout_.hosts) {
    Pieces pieces;
    for (const auto rank : ranks) pieces.add(blocks[rank]);
    of_hosts.push_back(std::move(pieces));
  }
  return rail_->share(of_hosts);
}

Status HybridCommunicator::share_from_first_local(std::span<const Pieces> blocks) {
  std::vector<Pieces> local(layout_.local_ranks().size());
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    if (local_index(rank) < 0) local[0].add(blocks[rank]);
  }
  return group_->share(local);
}

std::ptrdiff_t HybridCommunicator::local_index(std::uint32_t rank) const {
  const auto& ranks = layout_.local_ranks();
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : found - ranks.begin();
}

Status HybridCommunicator::check_peer(std::uint32_t peer) const {
  if (auto status = check_self(); !status) return status;
  if (peer >= size_ || peer == rank_) {
    return Error{ErrorCode::kInvalid,
                 "rank " + std::to_string(peer) + " is not a peer of rank " + std::to_string(rank_)};
  }
  return {};
}

Status HybridCommunicator::not_reached(std::uint32_t peer) const {
  return Error{ErrorCode::kInvalid, "there is no connection between rank " + std::to_string(rank_) + " and rank " +
                                        std::to_string(peer) + "; use a collective operation"};
}

bool HybridCommunicator::reaches(std::uint32_t peer) const {
  if (peer >= size_ || peer == rank_) return false;
  return local_index(peer) >= 0 || (rail_ && rail_->reaches(peer));
}

Status HybridCommunicator::send(std::span<const std::byte> data, std::uint32_t to) {
  const Call call(*this);
  if (auto status = check_peer(to); !status) return status;
  control_->begin();
  if (const auto local = local_index(to); local >= 0) {
    return settle(group_->send(data, static_cast<std::size_t>(local)));
  }
  return settle(rail_ ? rail_->send(to, data) : not_reached(to));
}

Status HybridCommunicator::receive(std::span<std::byte> data, std::uint32_t from) {
  const Call call(*this);
  if (auto status = check_peer(from); !status) return status;
  control_->begin();
  if (const auto local = local_index(from); local >= 0) {
    return settle(group_->receive(data, static_cast<std::size_t>(local)));
  }
  return settle(rail_ ? rail_->receive(from, data) : not_reached(from));
}

Status HybridCommunicator::exchange(std::span<const std::byte> sent, std::span<std::byte> received,
                                    std::uint32_t peer) {
  if (auto status = check_peer(peer); !status) return status;
  if (local_index(peer) >= 0) return Communicator::exchange(sent, received, peer);
  const Call call(*this);
  control_->begin();
  return settle(rail_ ? rail_->exchange(peer, sent, received) : not_reached(peer));
}

// A sum of one number: no rank has it before every rank has contributed.
Status HybridCommunicator::barrier() {
  float present = 1;
  return all_reduce(std::span(&present, 1), {}, nullptr);
}

Status HybridCommunicator::check_peers() {
  if (auto status = check_self(); !status) return status;
  if (group_) {
    if (auto status = group_->check(); !status) return status;
  }
  return rail_ ? rail_->check_peers() : Status();
}

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
