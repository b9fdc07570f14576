// Purpose: movement of blocks between hosts as continuous streams, around a ring and along trees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/comm/blocks.h"
#include "train/comm/link.h"

// Moves bytes around a ring, blocks in, blocks out, as one continuous stream. After its own first block a rank
// sends what it received (and reduced) before, so received bytes can be forwarded at once.
//
// In step s the rank at position p sends block p-s and receives block p-s-1. With `reduce_steps` = size-1 the first
// half of the stream sums (reduce-scatter) and the second half distributes the sums (all-gather).
// Thread: the communicator's. Memory: one scratch buffer, borrowed.

namespace elastictrain::comm {

class RingStream {
 public:
  RingStream(BlockWork& work, std::size_t position, std::size_t size, std::size_t reduce_steps, std::size_t steps,
             std::span<std::byte> scratch);

  Status run(Link& next, Link& previous, const LinkHeader& header, LinkWait& wait);

 private:
  struct Cursor {
    std::size_t step = 0;
    std::size_t offset = 0;  // within the step's block
  };

  std::size_t sent_block(std::size_t step) const { return (position_ + size_ * 2 - step % size_) % size_; }
  std::size_t received_block(std::size_t step) const { return sent_block(step + 1); }
  void skip_empty();
  bool sending_done() const { return header_sent_ == sizeof(LinkHeader) && out_.step == steps_; }
  bool receiving_done() const { return header_received_ == sizeof(LinkHeader) && in_.step == steps_; }

  // Bytes moved; 0: nothing could be moved now.
  Result<std::size_t> send_some(Link& next);
  Result<std::size_t> receive_some(Link& previous);
  Result<std::size_t> send_header(Link& next);
  Result<std::size_t> receive_header(Link& previous);
  Result<std::size_t> receive_to_reduce(Link& previous, std::size_t block);
  Result<std::size_t> receive_in_place(Link& previous, std::size_t block);
  std::size_t sendable() const;

  BlockWork& work_;
  const std::size_t position_;
  const std::size_t size_;
  const std::size_t reduce_steps_;
  const std::size_t steps_;
  std::span<std::byte> scratch_;
  std::size_t scratch_fill_ = 0;  // bytes of an incomplete float at the front
  LinkHeader header_;
  LinkHeader their_header_;
  std::size_t header_sent_ = 0;
  std::size_t header_received_ = 0;
  Cursor out_;
  Cursor in_;
};

// Moves blocks along trees as continuous streams. Received (and summed) bytes are forwarded at once, so the
// depth of a tree costs latency, not throughput.
//
// A block moves up to its root, where partial sums meet, and the sum moves down again. A block that is only copied
// starts at its root. Every rank adds in one fixed order (its own value, then its children's, ascending), so all ranks
// get the same bits. A child's bytes are read only up to where the bytes of the previous child have been added; until
// then they wait in the connection.
//
// Why it cannot deadlock: every connection carries its transfers in one order that all ranks share, a block moves up
// before it moves down, and a transfer only waits for earlier ones.
//
// Ownership: borrows links, work and scratch for one operation. Thread: the communicator's. Failure: that of a link, or
// kInvalid if a neighbour runs another operation.

// The part of this rank in one tree, by the indices of its links.
struct LinkEdges {
  std::vector<std::size_t> reduce_from;  // added in this order
  std::vector<std::size_t> reduce_to;    // one; none at the root or if nothing moves up
  std::vector<std::size_t> spread_from;  // one; none at the root
  std::vector<std::size_t> spread_to;
};

struct BlockRoute {
  std::size_t block = 0;
  const LinkEdges* edges = nullptr;
};

class TreeStream {
 public:
  TreeStream(BlockWork& work, std::vector<Link>& links, std::span<std::byte> scratch);

  // A header passes over these links in each direction, with or without blocks, so that neighbours detect a mismatch.
  void greet(std::size_t link);
  // `routes`: the same blocks in the same order on all ranks. On a connection, a block moves down after the `lag`
  // following blocks have moved up.
  void plan(std::span<const BlockRoute> routes, std::size_t lag);
  Status run(const LinkHeader& header, LinkWait& wait);

 private:
  struct Item {
    std::size_t route = 0;
    bool climbs = false;
    std::size_t child = 0;  // for an incoming partial sum: its place in the order of the sum
  };
  struct Queue {
    std::vector<Item> items;
    std::size_t at = 0;
    std::size_t offset = 0;  // within the block of the item
    std::size_t header_bytes = 0;
    bool done() const { return header_bytes == sizeof(LinkHeader) && at == items.size(); }
  };
  struct Port {
    Link* link = nullptr;
    bool used = false;
    Queue out;
    Queue in;
    LinkHeader their_header;
    std::array<std::byte, sizeof(float)> carry{};  // an incomplete float
    std::size_t carried = 0;
  };
  struct Progress {
    std::vector<std::size_t> added;  // bytes, for each child
    std::size_t final = 0;           // bytes that hold final values
  };

  void plan_climb(std::size_t route);
  void plan_descent(std::size_t route);
  std::size_t block_of(const Item& item) const { return routes_[item.route].block; }
  std::size_t summed(std::size_t route) const;
  std::size_t sendable(const Queue& out) const;
  std::size_t receivable(const Port& port) const;
  void advance(Queue& queue, std::size_t bytes);

  Result<std::size_t> send_some(Port& port);
  Result<std::size_t> receive_some(Port& port);
  Result<std::size_t> send_header(Port& port);
  Result<std::size_t> receive_header(Port& port);
  Result<std::size_t> receive_to_add(Port& port, const Item& item, std::size_t max);
  Result<std::size_t> receive_in_place(Port& port, const Item& item, std::size_t max);
  Result<std::size_t> move_all();
  bool done() const;
  void collect_interests(std::vector<pollfd>& interests) const;

  BlockWork& work_;
  std::span<std::byte> scratch_;
  LinkHeader header_;
  std::vector<BlockRoute> routes_;
  std::vector<Progress> progress_;
  std::vector<Port> ports_;
};

}  // namespace elastictrain::comm
