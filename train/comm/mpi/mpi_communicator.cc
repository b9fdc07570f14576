#include "train/comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>

#include "train/comm/blocks.h"
#include "train/comm/kernels.h"
#include "train/comm/mpi/mpi_message.h"
#include "train/comm/mpi/mpi_ring.h"

namespace elastictrain::comm {
namespace {

constexpr std::uint32_t kRailWindow = 4;

std::uint32_t segments_of(std::size_t bytes) {
  const auto segments = (bytes + MpiMessage::kPayloadBytes - 1) / MpiMessage::kPayloadBytes;
  return static_cast<std::uint32_t>(std::max<std::size_t>(segments, 1));
}

std::size_t segment_begin(std::uint32_t segment) {
  return segment * MpiMessage::kPayloadBytes;
}
// The last segment may be shorter.
std::size_t segment_bytes(std::size_t bytes, std::uint32_t segment) {
  return std::min(MpiMessage::kPayloadBytes, bytes - segment_begin(segment));
}

void fill(MpiMessage& message, const Pieces& data, std::uint32_t segment) {
  message.header.segment = segment;
  message.header.bytes = segment_bytes(data.size(), segment);
  data.get(segment_begin(segment), message.data());
}

// Expects as many as may be in flight; `expected` counts them.
Status expect_segments(MpiChannel& channel, std::uint32_t from, std::size_t bytes, std::uint32_t& expected) {
  for (; expected < segments_of(bytes) && channel.expected() < kRailWindow; ++expected) {
    if (auto status = channel.expect(from); !status) return status;
  }
  return {};
}

Status check_size(const MpiMessage& message, std::size_t bytes) {
  if (message.header.bytes == bytes) return {};
  return Error{ErrorCode::kInvalid, "received a message of another size than expected"};
}

// Stores the segments received from there in `data`, and calls `taken` with the index of each one.
template <class Taken>
Status take_segments(MpiChannel& channel, std::uint32_t from, const Pieces& data, Taken taken) {
  std::uint32_t expected = 0;
  for (std::uint32_t segment = 0; segment < segments_of(data.size()); ++segment) {
    if (auto status = expect_segments(channel, from, data.size(), expected); !status) return status;
    auto message = channel.wait();
    if (!message) return message.error();
    if (auto status = check_size(**message, segment_bytes(data.size(), segment)); !status) return status;
    data.put(segment_begin(segment), (*message)->data());
    channel.recycle(std::move(*message));
    if (auto status = taken(segment); !status) return status;
  }
  return {};
}

}  // namespace

MpiRail::MpiRail(MpiWorld& world, const BuildSpec& spec, const Layout& layout, Ranks members, OpControl& control)
    : generation_(spec.generation),
      rank_(spec.rank),
      rail_(layout.on_rail() ? layout.rail_ranks(layout.local) : Ranks{spec.rank}),
      position_(layout.on_rail() ? static_cast<std::uint32_t>(layout.host) : 0),
      size_(static_cast<std::uint32_t>(rail_.size())),
      world_(world),
      members_(std::move(members)),
      channel_(world, spec.generation, position_, launch_ranks(rail_), control),
      direct_(world, spec.generation, rank_, members_, control) {}

Ranks MpiRail::launch_ranks(const Ranks& ranks) const {
  Ranks found;
  for (const auto rank : ranks) found.push_back(members_[rank]);
  return found;
}

void MpiRail::watch(int, std::function<Status()> on_ready) {
  direct_.watch(on_ready);
  channel_.watch(std::move(on_ready));
}

void MpiRail::shut_down() noexcept {
  if (!reported_.exchange(true)) world_.notify_broken(generation_, members_);
}

Status MpiRail::all_reduce(const ReduceVector& vector, ReduceStats* stats) {
  if (stats != nullptr) stats->local_square_sum = data_square_sum(vector);
  auto status = reduce(vector);
  if (status && stats != nullptr) stats->reduced_square_sum = data_square_sum(vector);
  return status;
}

Status MpiRail::reduce(const ReduceVector& vector) {
  const MpiSumPlan plan = plan_mpi_sum(vector.size() * sizeof(float), size_);
  if (plan.way != MpiSumWay::kDoubling) return reduce_around_ring(vector, plan.segment);
  vector.keep_all();
  return reduce_by_doubling(vector);
}

Status MpiRail::reduce_around_ring(const ReduceVector& vector, std::size_t segment) {
  channel_.begin(MpiOperation::kReduceRing, vector.size(), vector.element());
  ReduceBlocks blocks(vector, size_);
  auto status = MpiRing(channel_, blocks, position_, size_, true, segment).run();
  if (!status) blocks.keep_the_rest(segment);
  return status;
}

// Pairs exchange sums over doubling distances. Both add the same two numbers, so all ranks hold the same bits. Each
// rank beyond a power of two first gives its part to a neighbour and receives the sum from it at the end.
Status MpiRail::reduce_by_doubling(const ReduceVector& vector) {
  channel_.begin(MpiOperation::kReduceDoubling, vector.size(), vector.element());
  const std::size_t count = vector.size();
  auto sum = channel_.fresh();
  sum->header.bytes = count * sizeof(float);
  vector.for_runs(0, count, [&](const auto& run, std::size_t at) {
    copy_scaled(sum->values() + at, run.values, run.count, run.scale);
  });
  std::uint32_t pairs = 1;
  while (pairs * 2 <= size_) pairs *= 2;
  const std::uint32_t beyond = size_ - pairs;
  const bool gives = position_ < 2 * beyond && position_ % 2 == 0;
  Result<MpiMessagePtr> result(MpiMessagePtr{});
  if (position_ < 2 * beyond) {
    if (auto status = channel_.expect(position_ ^ 1); !status) return status;
  }
  if (gives) {
    if (auto status = channel_.send(std::move(sum), position_ + 1); !status) return status;
    result = channel_.wait();
  } else {
    if (position_ < 2 * beyond) {
      auto other = channel_.wait();
      if (!other) return other.error();
      add(sum->values(), (*other)->values(), count);
      channel_.recycle(std::move(*other));
    }
    const std::uint32_t place = position_ < 2 * beyond ? position_ / 2 : position_ - beyond;
    const auto rank_at = [&](std::uint32_t at) { return at < beyond ? 2 * at + 1 : at + beyond; };
    result = std::move(sum);
    for (std::uint32_t distance = 1; distance < pairs; distance *= 2) {
      result = exchange_sums(std::move(*result), rank_at(place ^ distance), count);
      if (!result) return result.error();
    }
  }
  if (!result) return result.error();
  vector.for_runs(0, count, [&](const auto& run, std::size_t at) {
    std::memcpy(run.values, (*result)->values() + at, run.count * sizeof(float));
  });
  if (!gives && position_ < 2 * beyond) {
    if (auto status = channel_.send(std::move(*result), position_ - 1); !status) return status;
  } else {
    channel_.recycle(std::move(*result));
  }
  return channel_.wait_sent();
}

Result<MpiMessagePtr> MpiRail::exchange_sums(MpiMessagePtr sum, std::uint32_t partner, std::size_t count) {
  if (auto status = channel_.expect(partner); !status) return status.error();
  // No message is reused before the next call, so its values stay valid until they are added.
  const float* const mine = sum->values();
  if (auto status = channel_.send(std::move(sum), partner); !status) return status.error();
  auto other = channel_.wait();
  if (other) add((*other)->values(), mine, count);
  return other;
}

Status MpiRail::share(std::span<const Pieces> blocks) {
  const auto has_bytes = [](const Pieces& block) { return block.size() > 0; };
  const auto first = std::find_if(blocks.begin(), blocks.end(), has_bytes);
  if (first == blocks.end()) return share_around_ring(blocks);
  const bool from_one = std::none_of(first + 1, blocks.end(), has_bytes);
  return from_one ? spread(*first, static_cast<std::uint32_t>(first - blocks.begin())) : share_around_ring(blocks);
}

Status MpiRail::share_around_ring(std::span<const Pieces> blocks) {
  std::size_t bytes = 0;
  for (const auto& block : blocks) bytes += block.size();
  channel_.begin(MpiOperation::kShare, bytes);
  ShareBlocks travelling(blocks);
  return MpiRing(channel_, travelling, position_, size_, false, MpiMessage::kPayloadBytes).run();
}

Status MpiRail::spread(const Pieces& data, std::uint32_t root) {
  channel_.begin(MpiOperation::kSpread, data.size());
  if (position_ != root) return receive_down_the_tree(data, root);
  for (std::uint32_t segment = 0; segment < segments_of(data.size()); ++segment) {
    if (auto status = send_down_the_tree(data, segment, root); !status) return status;
  }
  return channel_.wait_sent();
}

Status MpiRail::receive_down_the_tree(const Pieces& data, std::uint32_t root) {
  const std::uint32_t place = (position_ + size_ - root) % size_;
  const auto parent = static_cast<std::uint32_t>(*tree_parent(place) + root) % size_;
  const auto pass_on = [&](std::uint32_t segment) { return send_down_the_tree(data, segment, root); };
  if (auto status = take_segments(channel_, parent, data, pass_on); !status) return status;
  return channel_.wait_sent();
}

Status MpiRail::send_down_the_tree(const Pieces& data, std::uint32_t segment, std::uint32_t root) {
  for (const auto child : tree_children((position_ + size_ - root) % size_, size_)) {
    auto message = channel_.fresh();
    fill(*message, data, segment);
    if (auto status = channel_.send(std::move(message), static_cast<std::uint32_t>(child + root) % size_); !status) {
      return status;
    }
  }
  return channel_.let_go_of_sent();
}

bool MpiRail::reaches(std::uint32_t peer) const {
  return peer < members_.size() && peer != rank_;
}

Status MpiRail::send(std::uint32_t peer, std::span<const std::byte> data) {
  direct_.begin(MpiOperation::kSend, data.size());
  // `pieces` is only read here.
  Pieces pieces;
  pieces.add({const_cast<std::byte*>(data.data()), data.size()});
  for (std::uint32_t segment = 0; segment < segments_of(data.size()); ++segment) {
    if (auto status = direct_.wait_sending_below(kRailWindow); !status) return status;
    auto message = direct_.fresh();
    fill(*message, pieces, segment);
    if (auto status = direct_.send(std::move(message), peer); !status) return status;
  }
  return direct_.wait_sent();
}

Status MpiRail::receive(std::uint32_t peer, std::span<std::byte> data) {
  direct_.begin(MpiOperation::kSend, data.size());
  Pieces pieces;
  pieces.add(data);
  return take_segments(direct_, peer, pieces, [](std::uint32_t) { return Status(); });
}

// If both ends sent first, both might wait for buffer space.
Status MpiRail::exchange(std::uint32_t peer, std::span<const std::byte> sent, std::span<std::byte> received) {
  const bool begins = rank_ < peer;
  if (auto status = begins ? send(peer, sent) : receive(peer, received); !status) return status;
  return begins ? receive(peer, received) : send(peer, sent);
}

Status MpiRail::check_peers() const {
  if (!world_.is_broken(generation_)) return {};
  return Error{ErrorCode::kPeerLost, "another rank of generation " + std::to_string(generation_) + " aborted it"};
}

Traffic MpiRail::traffic() const {
  Traffic traffic;
  for (const auto& peer : peers()) {
    traffic.bytes_sent += peer.bytes_sent;
    traffic.bytes_received += peer.bytes_received;
  }
  return traffic;
}

std::vector<PeerFigures> MpiRail::peers() const {
  auto figures = direct_.figures();
  for (const auto& on_rail : channel_.figures()) {
    auto& peer = figures[rail_[on_rail.rank]];
    peer.bytes_sent += on_rail.bytes_sent;
    peer.bytes_received += on_rail.bytes_received;
  }
  std::erase_if(figures, [](const PeerFigures& peer) { return peer.bytes_sent + peer.bytes_received == 0; });
  return figures;
}

Result<BuildResult> build_mpi_communicator(const BuildSpec& spec, MpiWorld& world, Ranks members,
                                           DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from,
                                           std::span<const std::uint32_t> state_transfer_to) {
  const bool all_there = std::all_of(members.begin(), members.end(), [&](auto rank) { return rank < world.size(); });
  if (!all_there || members.size() != spec.peers.size()) {
    return Error{ErrorCode::kInvalid, "a member of generation " + std::to_string(spec.generation) +
                                          " is not a rank of this MPI launch of " + std::to_string(world.size())};
  }
  // If the library takes one caller at a time, calls take turns. Each call is short, so plans can still be built during
  // training.
  const RailKind rails{world.library().threads_may_call() ? "mpi" : "mpi, one thread at a time",
                       [&](const Layout& layout, OpControl& control) {
                         return std::make_unique<MpiRail>(world, spec, layout, members, control);
                       }};
  return build_hybrid_communicator(spec, rails, listener, cancel, state_transfer_from, state_transfer_to);
}

}  // namespace elastictrain::comm
