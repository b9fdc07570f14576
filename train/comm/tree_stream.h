// Purpose: moves blocks along trees as continuous streams. Received (and summed) bytes are forwarded at once, so the
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
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/comm/block_work.h"
#include "train/comm/link.h"

namespace elastictrain::comm {

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
