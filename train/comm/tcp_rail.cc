#include "train/comm/tcp_rail.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "supervisor/protocol/check.h"
#include "train/comm/block_streams.h"
#include "train/comm/blocks.h"
#include "train/comm/kernels.h"
#include "train/comm/operation.h"
#include "train/comm/round_trip.h"

namespace elastictrain::comm {
namespace {

constexpr std::size_t kScratchBytes = 256 << 10;
constexpr std::size_t kMaxTransfers = 4;

const float* floats_of(std::span<const std::byte> message) {
  return reinterpret_cast<const float*>(message.data() + sizeof(LinkHeader));
}
float* floats_of(std::span<std::byte> message) {
  return reinterpret_cast<float*>(message.data() + sizeof(LinkHeader));
}
std::size_t float_count(std::span<const std::byte> message) {
  return (message.size() - sizeof(LinkHeader)) / sizeof(float);
}
void add_message(std::span<std::byte> message, std::span<const std::byte> other) {
  add(floats_of(message), floats_of(other), float_count(message));
}

// A transfer that only sends does not modify its buffer.
std::span<std::byte> only_read(std::span<const std::byte> data) {
  return {const_cast<std::byte*>(data.data()), data.size()};
}

// Below this size one message in each direction costs less than the rounds of a ring.
std::size_t small_bytes(std::size_t ranks) {
  return ranks <= 2 ? 64 << 10 : 32 << 10;
}

}  // namespace

TcpRail::TcpRail(Ranks members, std::size_t position, std::vector<Link> links, Algorithm algorithm,
                 const OpControl& control)
    : members_(std::move(members)),
      position_(position),
      links_(std::move(links)),
      algorithm_(algorithm),
      control_(control),
      scratch_(kScratchBytes) {
  ET_CHECK(position_ < members_.size(), "a rank on a rail has a position among its members");
  for (const auto& link : links_) {
    ET_CHECK(link.peer() != members_[position_], "no rank has a link to itself");
    ET_CHECK(std::find(members_.begin(), members_.end(), link.peer()) != members_.end(),
             "a rail's links lead to its members");
  }
}

void TcpRail::watch(int fd, std::function<Status()> on_ready) {
  watch_fd_ = fd;
  on_watch_ = std::move(on_ready);
}

void TcpRail::begin_operation(char kind, std::uint64_t bytes) {
  header_ = {static_cast<std::uint32_t>(kind), header_.sequence + 1, bytes};
}

Link* TcpRail::find_link(std::uint32_t peer) {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const Link& link) { return link.peer() == peer; });
  return found == links_.end() ? nullptr : &*found;
}

bool TcpRail::reaches(std::uint32_t peer) const {
  return std::any_of(links_.begin(), links_.end(), [&](const Link& link) { return link.peer() == peer; });
}

Result<Link*> TcpRail::neighbour(std::uint32_t peer) {
  if (Link* link = find_link(peer)) return link;
  return Error{ErrorCode::kInvalid, "this rank and rank " + std::to_string(peer) +
                                        " are not neighbours in this topology; use a collective operation"};
}

Link& TcpRail::link_to(std::size_t position) {
  Link* link = find_link(members_[position]);
  ET_CHECK(link != nullptr, "the topology has a link wherever a collective operation needs one");
  return *link;
}

Status TcpRail::check_peers() const {
  for (const auto& link : links_) {
    pollfd end{link.fd(), POLLRDHUP, 0};
    if (::poll(&end, 1, 0) > 0) {
      return Error{ErrorCode::kPeerLost, "rank " + std::to_string(link.peer()) + " closed its connection"};
    }
  }
  return {};
}

void TcpRail::shut_down() noexcept {
  for (auto& link : links_) link.shut_down();
}

Traffic TcpRail::traffic() const {
  Traffic traffic;
  for (const auto& link : links_) {
    traffic.bytes_sent += link.sent_bytes();
    traffic.bytes_received += link.received_bytes();
  }
  return traffic;
}

std::vector<PeerFigures> TcpRail::peers() const {
  std::vector<PeerFigures> peers;
  for (const auto& link : links_) {
    peers.push_back({link.peer(), link.sent_bytes(), link.received_bytes(), round_trip_us(link.fd())});
  }
  return peers;
}

std::size_t TcpRail::link_index(std::size_t position) {
  return static_cast<std::size_t>(&link_to(position) - links_.data());
}

void TcpRail::use_trees(const TreePlan& plan) {
  ET_CHECK(header_.sequence == 0 && trees_.empty(), "trees are chosen once, before the first operation");
  ET_CHECK(plan.position == position_ && plan.members == members_, "the trees are those of the rail's members");
  ET_CHECK(plan.ways.size() == members_.size(), "a way leads to every member");
  const auto one = [&](const std::optional<std::uint32_t>& position) {
    return position ? std::vector<std::size_t>{link_index(*position)} : std::vector<std::size_t>{};
  };
  const auto each = [&](const Ranks& positions) {
    std::vector<std::size_t> found;
    for (const auto position : positions) found.push_back(link_index(position));
    return found;
  };
  for (const auto& edges : plan.graphs) {
    trees_.push_back({each(edges.reduce_from), one(edges.reduce_to), one(edges.spread_from), each(edges.spread_to)});
  }
  first_links_ = each(plan.first_neighbours());
  for (std::size_t position = 0; position < plan.ways.size(); ++position) {
    way_links_.push_back(position == plan.position ? links_.size() : link_index(plan.ways[position]));
  }
}

Status TcpRail::all_reduce(const ReduceVector& vector, ReduceStats* stats) {
  const std::size_t bytes = vector.size() * sizeof(float);
  begin_operation(kind_of_sum(vector.element()), bytes);
  if (!trees_.empty()) return all_reduce_trees(vector, stats);
  const bool small =
      algorithm_ == Algorithm::kTree || (algorithm_ == Algorithm::kAuto && bytes <= small_bytes(members_.size()));
  return small ? all_reduce_small(vector, stats) : all_reduce_ring(vector, stats);
}

Status TcpRail::all_reduce_ring(const ReduceVector& vector, ReduceStats* stats) {
  const std::size_t size = members_.size();
  ReduceWork work(vector, size, stats);
  RingStream stream(work, position_, size, size - 1, 2 * (size - 1), scratch_);
  auto wait = make_wait();
  auto status = stream.run(link_to(ring_next(position_, size)), link_to(ring_previous(position_, size)), header_, wait);
  if (!status) work.keep_rest();
  work.collect();
  return status;
}

Status TcpRail::share(std::span<const Pieces> blocks) {
  ET_CHECK(blocks.size() == members_.size(), "every member of a rail has one block");
  std::uint64_t total = 0;
  for (const auto& block : blocks) total += block.size();
  begin_operation(kShareKind, total);
  if (!trees_.empty()) return share_trees(blocks);
  const std::size_t size = members_.size();
  ShareWork work(blocks);
  RingStream stream(work, position_, size, 0, size - 1, scratch_);
  auto wait = make_wait();
  return stream.run(link_to(ring_next(position_, size)), link_to(ring_previous(position_, size)), header_, wait);
}

Status TcpRail::all_reduce_trees(const ReduceVector& vector, ReduceStats* stats) {
  const peers::ChunkPlan cut = peers::plan_chunks(vector.size() * sizeof(float), trees_.size());
  ReduceWork work(vector, cut.chunks, stats);
  std::vector<BlockRoute> routes;
  for (std::size_t chunk = 0; chunk < cut.chunks; ++chunk) routes.push_back({chunk, &trees_[chunk % cut.graphs]});
  TreeStream stream(work, links_, scratch_);
  for (const auto link : first_links_) stream.greet(link);
  // Sums in transfer must not delay the next ones.
  stream.plan(routes, 2 * cut.graphs);
  auto wait = make_wait();
  auto status = stream.run(header_, wait);
  if (!status) work.keep_rest();
  work.collect();
  return status;
}

// Every block moves down the first tree from its owner.
Status TcpRail::share_trees(std::span<const Pieces> blocks) {
  ShareWork work(blocks);
  std::vector<LinkEdges> edges;
  std::vector<BlockRoute> routes;
  edges.reserve(blocks.size());
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    if (blocks[block].size() == 0) continue;
    LinkEdges& mine = edges.emplace_back();
    for (const auto link : first_links_) {
      (link == way_links_[block] ? mine.spread_from : mine.spread_to).push_back(link);
    }
    routes.push_back({block, &mine});
  }
  TreeStream stream(work, links_, scratch_);
  for (const auto link : first_links_) stream.greet(link);
  stream.plan(routes, 0);
  auto wait = make_wait();
  return stream.run(header_, wait);
}

// The message is a copy of the scaled input behind a header, so that it is sent in one system call.
Status TcpRail::all_reduce_small(const ReduceVector& vector, ReduceStats* stats) {
  message_.resize(sizeof(LinkHeader) + vector.size() * sizeof(float));
  const std::span<std::byte> message(message_);
  std::memcpy(message.data(), &header_, sizeof header_);
  vector.for_runs(0, vector.size(), [&](const auto& run, std::size_t offset) {
    run.keep_input();
    if (stats != nullptr && run.is_data) stats->local_square_sum += square_sum(run.values, run.count);
    copy_scaled(floats_of(message) + offset, run.values, run.count, run.scale);
  });
  if (auto status = sum_small(message); !status) return status;
  vector.for_runs(0, vector.size(), [&](const auto& run, std::size_t offset) {
    std::memcpy(run.values, floats_of(message) + offset, run.count * sizeof(float));
    if (stats != nullptr && run.is_data) stats->reduced_square_sum += square_sum(run.values, run.count);
  });
  return {};
}

// With four positions each pair of ring neighbours sums; then each sum is exchanged across the ring. Sums of two are
// the same on both sides, so all ranks get the same bits.
Status TcpRail::sum_small(std::span<std::byte> message) {
  const std::size_t size = members_.size();
  if (algorithm_ == Algorithm::kTree || size > kMaxExchangeSize) return climb_tree(message);
  if (size < kMaxExchangeSize) return exchange_with_all(message);
  if (auto status = exchange_with(position_ ^ 1, message); !status) return status;
  return exchange_with(size - 1 - position_, message);
}

// Two or three ranks: every rank sends to all others and sums in the order of the positions.
Status TcpRail::exchange_with_all(std::span<std::byte> message) {
  ET_CHECK(members_.size() < kMaxExchangeSize, "an exchange with all has room for its transfers");
  std::array<Transfer, kMaxTransfers> transfers;
  std::array<std::span<std::byte>, kMaxExchangeSize> parts;
  std::size_t count = 0;
  std::size_t peers = 0;
  parts[position_] = message;
  for (std::size_t peer = 0; peer < members_.size(); ++peer) {
    if (peer == position_) continue;
    parts[peer] = inbox(peers++, message.size());
    transfers[count++] = sending(link_to(peer), message);
    transfers[count++] = receiving(link_to(peer), parts[peer]);
  }
  if (auto status = run(std::span(transfers).first(count)); !status) return status;
  for (std::size_t part = 1; part < members_.size(); ++part) add_message(parts[0], parts[part]);
  if (position_ != 0) std::memcpy(message.data(), parts[0].data(), message.size());
  return {};
}

Status TcpRail::exchange_with(std::size_t position, std::span<std::byte> message) {
  Link& link = link_to(position);
  const auto incoming = inbox(0, message.size());
  std::array<Transfer, 2> transfers{sending(link, message), receiving(link, incoming)};
  if (auto status = run(transfers); !status) return status;
  add_message(message, incoming);
  return {};
}

Status TcpRail::climb_tree(std::span<std::byte> message) {
  const auto parent = tree_parent(position_);
  const auto children = tree_children(position_, members_.size());
  std::array<Transfer, 2> transfers;
  for (std::size_t i = 0; i < children.size(); ++i) {
    transfers[i] = receiving(link_to(children[i]), inbox(i, message.size()));
  }
  if (auto status = run(std::span(transfers).first(children.size())); !status) return status;
  for (std::size_t i = 0; i < children.size(); ++i) add_message(message, inbox(i, message.size()));
  if (parent) {
    std::array<Transfer, 1> up{sending(link_to(*parent), message)};
    if (auto status = run(up); !status) return status;
    std::array<Transfer, 1> down{receiving(link_to(*parent), message)};
    if (auto status = run(down); !status) return status;
  }
  for (std::size_t i = 0; i < children.size(); ++i) transfers[i] = sending(link_to(children[i]), message);
  return run(std::span(transfers).first(children.size()));
}

std::span<std::byte> TcpRail::inbox(std::size_t index, std::size_t size) {
  ET_CHECK(index < std::size(inboxes_), "a rank has an inbox for each message that it awaits at once");
  auto& buffer = inboxes_[index];
  if (buffer.size() < size) buffer.resize(size);
  return std::span(buffer).first(size);
}

Status TcpRail::send(std::uint32_t peer, std::span<const std::byte> data) {
  const auto link = neighbour(peer);
  if (!link) return link.error();
  LinkHeader header{'p', 0, data.size()};
  std::array<Transfer, 1> first{sending(**link, std::as_writable_bytes(std::span(&header, 1)))};
  if (auto status = run(first); !status) return status;
  std::array<Transfer, 1> rest{sending(**link, only_read(data))};
  return run(rest);
}

Status TcpRail::receive(std::uint32_t peer, std::span<std::byte> data) {
  const auto link = neighbour(peer);
  if (!link) return link.error();
  const LinkHeader expected{'p', 0, data.size()};
  LinkHeader header;
  std::array<Transfer, 1> first{Transfer{*link, std::as_writable_bytes(std::span(&header, 1)), false, 0, &expected}};
  if (auto status = run(first); !status) return status;
  std::array<Transfer, 1> rest{Transfer{*link, data, false, 0, nullptr}};
  return run(rest);
}

Status TcpRail::exchange(std::uint32_t peer, std::span<const std::byte> sent, std::span<std::byte> received) {
  const auto link = neighbour(peer);
  if (!link) return link.error();
  LinkHeader mine{'x', 0, sent.size()};
  const LinkHeader expected{'x', 0, received.size()};
  LinkHeader theirs;
  std::array<Transfer, 2> first{sending(**link, std::as_writable_bytes(std::span(&mine, 1))),
                                Transfer{*link, std::as_writable_bytes(std::span(&theirs, 1)), false, 0, &expected}};
  if (auto status = run(first); !status) return status;
  std::array<Transfer, 2> rest{sending(**link, only_read(sent)), Transfer{*link, received, false, 0, nullptr}};
  return run(rest);
}

Status TcpRail::run(std::span<Transfer> transfers) {
  auto wait = make_wait();
  for (;;) {
    std::array<pollfd, kMaxTransfers> interests;
    std::size_t open = 0;
    std::size_t moved = 0;
    for (auto& transfer : transfers) {
      auto progress = advance(transfer);
      if (!progress) return progress.error();
      moved += *progress;
      if (transfer.done == transfer.buffer.size()) continue;
      interests[open++] = {transfer.link->fd(), static_cast<short>(transfer.outgoing ? POLLOUT : POLLIN), 0};
    }
    if (open == 0) return {};
    if (moved > 0) {
      wait.moved();
      continue;
    }
    if (auto status = wait.pause(std::span(interests).first(open)); !status) return status;
    if (!wait.sleeps()) continue;
    if (auto status = check_unread_links(transfers); !status) return status;
  }
}

Status TcpRail::check_unread_links(std::span<const Transfer> transfers) {
  for (auto& link : links_) {
    const bool in_use = std::any_of(transfers.begin(), transfers.end(), [&](const Transfer& transfer) {
      return transfer.link == &link && !transfer.outgoing && transfer.done < transfer.buffer.size();
    });
    if (in_use) continue;
    const auto theirs = link.peek_header();
    if (!theirs || theirs->sequence != header_.sequence) continue;
    if (auto status = check_link_header(header_, *theirs, link.peer()); !status) return status;
  }
  return {};
}

Result<std::size_t> TcpRail::advance(Transfer& transfer) {
  const auto rest = transfer.buffer.subspan(transfer.done);
  if (rest.empty()) return std::size_t{0};
  auto moved = transfer.outgoing ? transfer.link->try_send(rest) : transfer.link->try_receive_in_place(rest);
  if (!moved) return moved;
  transfer.done += *moved;
  if (transfer.expected != nullptr && transfer.done >= sizeof(LinkHeader)) {
    LinkHeader theirs;
    std::memcpy(&theirs, transfer.buffer.data(), sizeof theirs);
    auto status = check_link_header(*transfer.expected, theirs, transfer.link->peer());
    if (!status) return status.error();
    transfer.expected = nullptr;
  }
  return moved;
}

}  // namespace elastictrain::comm
