// Purpose: collectives over sockets among the ranks of one rail (one rank per host). Small all-reduces exchange
// directly with ring neighbours or use a tree; all other operations stream around the ring. With a tree plan, all of it
// uses the trees of a chosen topology instead.
//
// Ownership: its links. Threads and failure: see rail.h; an error spreads through the closed links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/comm/block_streams.h"
#include "train/comm/link.h"
#include "train/comm/rail.h"
#include "train/comm/topology.h"

namespace elastictrain::comm {

class TcpRail final : public Rail {
 public:
  // `members`: global ranks by position. `links`: to the ring neighbours, and to tree neighbours if there is a tree.
  TcpRail(Ranks members, std::size_t position, std::vector<Link> links, Algorithm algorithm, const OpControl& control);

  // Call it before the first operation; `links` must reach the plan's neighbours.
  void use_trees(const TreePlan& plan);

  void watch(int fd, std::function<Status()> on_ready) override;
  Status all_reduce(const ReduceVector& vector, ReduceStats* stats) override;
  Status share(std::span<const Pieces> blocks) override;
  bool reaches(std::uint32_t peer) const override;
  Status send(std::uint32_t peer, std::span<const std::byte> data) override;
  Status receive(std::uint32_t peer, std::span<std::byte> data) override;
  Status exchange(std::uint32_t peer, std::span<const std::byte> sent, std::span<std::byte> received) override;
  Status check_peers() const override;
  void shut_down() noexcept override;
  Traffic traffic() const override;
  std::vector<PeerFigures> peers() const override;

 private:
  // A buffer in transfer over one link.
  struct Transfer {
    Link* link = nullptr;
    std::span<std::byte> buffer;
    bool outgoing = false;
    std::size_t done = 0;
    const LinkHeader* expected = nullptr;  // the buffer starts with a header that must equal this one
  };

  Status run(std::span<Transfer> transfers);
  Result<std::size_t> advance(Transfer& transfer);
  // Looks for a peer that runs another kind of operation and waits on a link that this rank does not read.
  Status check_unread_links(std::span<const Transfer> transfers);
  static Transfer sending(Link& link, std::span<std::byte> message) { return {&link, message, true, 0, nullptr}; }
  Transfer receiving(Link& link, std::span<std::byte> buffer) { return {&link, buffer, false, 0, &header_}; }
  LinkWait make_wait() const { return {control_, watch_fd_, on_watch_}; }
  void begin_operation(char kind, std::uint64_t bytes);
  Link* find_link(std::uint32_t peer);
  Result<Link*> neighbour(std::uint32_t peer);
  Link& link_to(std::size_t position);

  std::size_t link_index(std::size_t position);
  Status all_reduce_trees(const ReduceVector& vector, ReduceStats* stats);
  Status share_trees(std::span<const Pieces> blocks);
  Status all_reduce_ring(const ReduceVector& vector, ReduceStats* stats);
  Status all_reduce_small(const ReduceVector& vector, ReduceStats* stats);
  Status sum_small(std::span<std::byte> message);
  Status exchange_with_all(std::span<std::byte> message);
  Status exchange_with(std::size_t position, std::span<std::byte> message);
  Status climb_tree(std::span<std::byte> message);
  // A buffer for a message of `size` bytes from a peer.
  std::span<std::byte> inbox(std::size_t index, std::size_t size);

  Ranks members_;
  std::size_t position_;
  std::vector<Link> links_;
  Algorithm algorithm_;
  std::vector<LinkEdges> trees_;          // empty: the ring
  std::vector<std::size_t> way_links_;    // link towards each position along the first tree
  std::vector<std::size_t> first_links_;  // of the first tree
  const OpControl& control_;
  int watch_fd_ = -1;
  std::function<Status()> on_watch_;
  LinkHeader header_;  // of the current operation
  std::vector<std::byte> scratch_;
  std::vector<std::byte> message_;
  std::vector<std::byte> inboxes_[2];
};

}  // namespace elastictrain::comm
