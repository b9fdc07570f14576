#include "train/comm/block_streams.h"

#include <algorithm>
#include <cstring>

#include "supervisor/protocol/check.h"

namespace elastictrain::comm {
namespace {

// One send or receive moves at most this much, so that both directions stay busy and received bytes are still in the
// cache.
constexpr std::size_t kMaxRingMoveBytes = 256 << 10;

}  // namespace

RingStream::RingStream(BlockWork& work, std::size_t position, std::size_t size, std::size_t reduce_steps,
                       std::size_t steps, std::span<std::byte> scratch)
    : work_(work), position_(position), size_(size), reduce_steps_(reduce_steps), steps_(steps), scratch_(scratch) {
  ET_CHECK(size_ > 1 && position_ < size_, "a ring has at least two positions, and a stream one of them");
  ET_CHECK(reduce_steps_ < size_ && steps_ <= 2 * (size_ - 1), "no block goes around a ring twice");
  ET_CHECK(scratch_.size() >= sizeof(float), "a stream has room for what it adds");
}

Status RingStream::run(Link& next, Link& previous, const LinkHeader& header, LinkWait& wait) {
  header_ = header;
  skip_empty();
  while (!sending_done() || !receiving_done()) {
    auto sent = send_some(next);
    if (!sent) return sent.error();
    auto received = receive_some(previous);
    if (!received) return received.error();
    if (*sent + *received > 0) {
      wait.moved();
      continue;
    }
    const bool wants_to_send = header_sent_ < sizeof(LinkHeader) || sendable() > 0;
    const pollfd interests[2] = {{receiving_done() ? -1 : previous.fd(), POLLIN, 0},
                                 {wants_to_send ? next.fd() : -1, POLLOUT, 0}};
    if (auto status = wait.pause(interests); !status) return status;
  }
  return {};
}

void RingStream::skip_empty() {
  while (out_.step < steps_ && out_.offset == work_.block_size(sent_block(out_.step))) out_ = {out_.step + 1, 0};
  while (in_.step < steps_ && in_.offset == work_.block_size(received_block(in_.step))) in_ = {in_.step + 1, 0};
}

// Step s sends what step s-1 has received.
std::size_t RingStream::sendable() const {
  if (out_.step == steps_) return 0;
  const std::size_t size = work_.block_size(sent_block(out_.step));
  if (out_.step == 0 || in_.step >= out_.step) return size - out_.offset;
  return in_.step + 1 == out_.step ? in_.offset - out_.offset : 0;
}

Result<std::size_t> RingStream::send_some(Link& next) {
  if (header_sent_ < sizeof(LinkHeader)) return send_header(next);
  const std::size_t ready = std::min(sendable(), kMaxRingMoveBytes);
  if (ready == 0) return std::size_t{0};
  const std::size_t block = sent_block(out_.step);
  const auto run = work_.memory(block, out_.offset, ready);
  if (out_.step == 0) work_.prepare_own(block, out_.offset + run.size());
  auto sent = next.try_send(run);
  if (!sent) return sent;
  out_.offset += *sent;
  skip_empty();
  return sent;
}

Result<std::size_t> RingStream::receive_some(Link& previous) {
  if (header_received_ < sizeof(LinkHeader)) return receive_header(previous);
  if (in_.step == steps_) return std::size_t{0};
  const std::size_t block = received_block(in_.step);
  auto received = in_.step < reduce_steps_ ? receive_to_reduce(previous, block) : receive_in_place(previous, block);
  skip_empty();
  return received;
}

Result<std::size_t> RingStream::send_header(Link& next) {
  auto sent = next.try_send(std::as_bytes(std::span(&header_, 1)).subspan(header_sent_));
  if (sent) header_sent_ += *sent;
  return sent;
}

Result<std::size_t> RingStream::receive_header(Link& previous) {
  auto received = previous.try_receive(std::as_writable_bytes(std::span(&their_header_, 1)).subspan(header_received_));
  if (!received) return received;
  header_received_ += *received;
  if (header_received_ < sizeof(LinkHeader)) return received;
  if (auto status = check_link_header(header_, their_header_, previous.peer()); !status) return status.error();
  return received;
}

Result<std::size_t> RingStream::receive_to_reduce(Link& previous, std::size_t block) {
  const std::size_t left = work_.block_size(block) - in_.offset - scratch_fill_;
  auto received =
      previous.try_receive_in_place(scratch_.subspan(scratch_fill_, std::min(left, scratch_.size() - scratch_fill_)));
  if (!received || *received == 0) return received;
  const std::size_t fill = scratch_fill_ + *received;
  const std::size_t whole = fill / sizeof(float) * sizeof(float);
  work_.reduce(block, in_.offset, scratch_.first(whole));
  scratch_fill_ = fill - whole;
  std::memmove(scratch_.data(), scratch_.data() + whole, scratch_fill_);
  in_.offset += whole;
  if (in_.step + 1 == reduce_steps_) work_.finished(block, in_.offset);
  return received;
}

Result<std::size_t> RingStream::receive_in_place(Link& previous, std::size_t block) {
  auto received = previous.try_receive_in_place(work_.memory(block, in_.offset, kMaxRingMoveBytes));
  if (!received) return received;
  in_.offset += *received;
  work_.finished(block, in_.offset);
  return received;
}

namespace {

// One send or receive moves at most this much, so that all links stay busy and received bytes are still in the cache.
constexpr std::size_t kMaxTreeMoveBytes = 256 << 10;

}  // namespace

TreeStream::TreeStream(BlockWork& work, std::vector<Link>& links, std::span<std::byte> scratch)
    : work_(work), scratch_(scratch), ports_(links.size()) {
  ET_CHECK(scratch_.size() >= 2 * sizeof(float), "a stream has room for what it adds");
  for (std::size_t i = 0; i < links.size(); ++i) ports_[i].link = &links[i];
}

void TreeStream::greet(std::size_t link) {
  ET_CHECK(link < ports_.size(), "a stream greets over its own links");
  ports_[link].used = true;
}

void TreeStream::plan(std::span<const BlockRoute> routes, std::size_t lag) {
  ET_CHECK(routes_.empty(), "the routes of a stream are planned once");
  routes_.assign(routes.begin(), routes.end());
  progress_.resize(routes_.size());
  for (std::size_t turn = 0; turn < routes_.size() + lag; ++turn) {
    if (turn < routes_.size()) plan_climb(turn);
    if (turn >= lag) plan_descent(turn - lag);
  }
}

void TreeStream::plan_climb(std::size_t route) {
  const LinkEdges& edges = *routes_[route].edges;
  const bool empty = work_.block_size(routes_[route].block) == 0;
  for (std::size_t child = 0; child < edges.reduce_from.size(); ++child) {
    Port& port = ports_[edges.reduce_from[child]];
    port.used = true;
    if (!empty) port.in.items.push_back({route, true, child});
  }
  for (const auto parent : edges.reduce_to) {
    ports_[parent].used = true;
    if (!empty) ports_[parent].out.items.push_back({route, true, 0});
  }
  progress_[route].added.resize(edges.reduce_from.size());
}

void TreeStream::plan_descent(std::size_t route) {
  const LinkEdges& edges = *routes_[route].edges;
  const std::size_t size = work_.block_size(routes_[route].block);
  for (const auto parent : edges.spread_from) {
    ports_[parent].used = true;
    if (size > 0) ports_[parent].in.items.push_back({route, false, 0});
  }
  for (const auto child : edges.spread_to) {
    ports_[child].used = true;
    if (size > 0) ports_[child].out.items.push_back({route, false, 0});
  }
  const bool begins_here = edges.spread_from.empty() && edges.reduce_from.empty();
  if (begins_here) progress_[route].final = size;
}

Status TreeStream::run(const LinkHeader& header, LinkWait& wait) {
  header_ = header;
  std::vector<pollfd> interests;
  while (!done()) {
    auto moved = move_all();
    if (!moved) return moved.error();
    if (*moved > 0) {
      wait.moved();
      continue;
    }
    collect_interests(interests);
    if (auto status = wait.pause(interests); !status) return status;
  }
  return {};
}

bool TreeStream::done() const {
  return std::all_of(ports_.begin(), ports_.end(),
                     [](const Port& port) { return !port.used || (port.out.done() && port.in.done()); });
}

Result<std::size_t> TreeStream::move_all() {
  std::size_t moved = 0;
  for (auto& port : ports_) {
    if (!port.used) continue;
    auto sent = send_some(port);
    if (!sent) return sent;
    auto received = receive_some(port);
    if (!received) return received;
    moved += *sent + *received;
  }
  return moved;
}

void TreeStream::collect_interests(std::vector<pollfd>& interests) const {
  interests.clear();
  for (const auto& port : ports_) {
    if (!port.used) continue;
    int events = 0;
    if (port.out.header_bytes < sizeof(LinkHeader) || sendable(port.out) > 0) events |= POLLOUT;
    if (port.in.header_bytes < sizeof(LinkHeader) || receivable(port) > 0) events |= POLLIN;
    if (events != 0) interests.push_back({port.link->fd(), static_cast<short>(events), 0});
  }
}

// All children have been added up to this offset; at a leaf that is the whole block.
std::size_t TreeStream::summed(std::size_t route) const {
  const auto& added = progress_[route].added;
  return added.empty() ? work_.block_size(routes_[route].block) : added.back();
}

std::size_t TreeStream::sendable(const Queue& out) const {
  if (out.at == out.items.size()) return 0;
  const Item& item = out.items[out.at];
  return (item.climbs ? summed(item.route) : progress_[item.route].final) - out.offset;
}

std::size_t TreeStream::receivable(const Port& port) const {
  if (port.in.at == port.in.items.size()) return 0;
  const Item& item = port.in.items[port.in.at];
  const bool after_another = item.climbs && item.child > 0;
  const std::size_t end =
      after_another ? progress_[item.route].added[item.child - 1] : work_.block_size(block_of(item));
  return end - port.in.offset - port.carried;
}

void TreeStream::advance(Queue& queue, std::size_t bytes) {
  queue.offset += bytes;
  if (queue.offset < work_.block_size(block_of(queue.items[queue.at]))) return;
  ++queue.at;
  queue.offset = 0;
}

Result<std::size_t> TreeStream::send_some(Port& port) {
  if (port.out.header_bytes < sizeof(LinkHeader)) return send_header(port);
  const std::size_t ready = std::min(sendable(port.out), kMaxTreeMoveBytes);
  if (ready == 0) return std::size_t{0};
  const Item& item = port.out.items[port.out.at];
  const std::size_t block = block_of(item);
  const auto run = work_.memory(block, port.out.offset, ready);
  const bool own_values_only = item.climbs && progress_[item.route].added.empty();
  if (own_values_only) work_.prepare_own(block, port.out.offset + run.size());
  auto sent = port.link->try_send(run);
  if (sent && *sent > 0) advance(port.out, *sent);
  return sent;
}

Result<std::size_t> TreeStream::receive_some(Port& port) {
  if (port.in.header_bytes < sizeof(LinkHeader)) return receive_header(port);
  const std::size_t max = receivable(port);
  if (max == 0) return std::size_t{0};
  const Item item = port.in.items[port.in.at];
  return item.climbs ? receive_to_add(port, item, max) : receive_in_place(port, item, max);
}

Result<std::size_t> TreeStream::send_header(Port& port) {
  auto sent = port.link->try_send(std::as_bytes(std::span(&header_, 1)).subspan(port.out.header_bytes));
  if (sent) port.out.header_bytes += *sent;
  return sent;
}

Result<std::size_t> TreeStream::receive_header(Port& port) {
  const auto place = std::as_writable_bytes(std::span(&port.their_header, 1)).subspan(port.in.header_bytes);
  auto received = port.link->try_receive(place);
  if (!received) return received;
  port.in.header_bytes += *received;
  if (port.in.header_bytes < sizeof(LinkHeader)) return received;
  if (auto status = check_link_header(header_, port.their_header, port.link->peer()); !status) return status.error();
  return received;
}

Result<std::size_t> TreeStream::receive_to_add(Port& port, const Item& item, std::size_t max) {
  std::memcpy(scratch_.data(), port.carry.data(), port.carried);
  const auto room = scratch_.subspan(port.carried, std::min(max, scratch_.size() - port.carried));
  auto received = port.link->try_receive(room);
  if (!received || *received == 0) return received;
  const std::size_t fill = port.carried + *received;
  const std::size_t whole = fill / sizeof(float) * sizeof(float);
  work_.reduce(block_of(item), port.in.offset, scratch_.first(whole));
  port.carried = fill - whole;
  std::memcpy(port.carry.data(), scratch_.data() + whole, port.carried);
  auto& progress = progress_[item.route];
  progress.added[item.child] = port.in.offset + whole;
  const bool is_sum = routes_[item.route].edges->spread_from.empty() && item.child + 1 == progress.added.size();
  if (is_sum) {
    progress.final = port.in.offset + whole;
    work_.finished(block_of(item), progress.final);
  }
  if (whole > 0) advance(port.in, whole);
  return received;
}

Result<std::size_t> TreeStream::receive_in_place(Port& port, const Item& item, std::size_t max) {
  const std::size_t block = block_of(item);
  auto received = port.link->try_receive(work_.memory(block, port.in.offset, std::min(max, kMaxTreeMoveBytes)));
  if (!received || *received == 0) return received;
  progress_[item.route].final = port.in.offset + *received;
  work_.finished(block, progress_[item.route].final);
  advance(port.in, *received);
  return received;
}

}  // namespace elastictrain::comm
