// Purpose: links between positions of one rail over pairs of sockets, and the far end of one as plain bytes.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "train/comm/link.h"

namespace elastictrain::comm::testing {

// Small buffers: whatever is longer moves in parts.
inline std::array<Socket, 2> wire() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  const int bytes = 8 << 10;
  for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return {Socket(ends[0]), Socket(ends[1])};
}

// The rank of each position; they are neither dense nor in order.
inline std::vector<std::uint32_t> ranks_of(std::size_t size) {
  std::vector<std::uint32_t> ranks;
  for (std::size_t position = 0; position < size; ++position) {
    ranks.push_back(static_cast<std::uint32_t>(10 + 3 * (size - position)));
  }
  return ranks;
}

// A link between any two positions.
inline std::vector<std::vector<Link>> all_links(const std::vector<std::uint32_t>& ranks) {
  std::vector<std::vector<Link>> links(ranks.size());
  for (std::size_t low = 0; low < ranks.size(); ++low) {
    for (std::size_t high = low + 1; high < ranks.size(); ++high) {
      auto ends = wire();
      links[low].emplace_back(Channel(std::move(ends[0])), ranks[high]);
      links[high].emplace_back(Channel(std::move(ends[1])), ranks[low]);
    }
  }
  return links;
}

// A peer that says what a test wants. Its calls wait, up to a limit that only a failing test reaches.
class Peer {
 public:
  // `other`: the descriptor of the other end.
  Peer(Socket socket, int other) : socket_(std::move(socket)), other_(other) {
    ::fcntl(socket_.fd(), F_SETFL, ::fcntl(socket_.fd(), F_GETFL) & ~O_NONBLOCK);
    const timeval limit{20, 0};
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }

  void say(std::span<const std::byte> bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::send(socket_.fd(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      REQUIRE(count > 0);
      done += static_cast<std::size_t>(count);
    }
  }
  void say(char kind, std::uint32_t sequence, std::uint64_t bytes) {
    const LinkHeader header{static_cast<std::uint32_t>(kind), sequence, bytes};
    say(std::as_bytes(std::span(&header, 1)));
  }
  void say(const std::vector<float>& values) { say(std::as_bytes(std::span(values))); }
  // Each in a packet of its own, which splits numbers.
  void say_in_pieces(const std::vector<float>& values, std::size_t piece) {
    const auto bytes = std::as_bytes(std::span(values));
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      say(bytes.subspan(at, std::min(piece, bytes.size() - at)));
      await_taken();
    }
  }

  LinkHeader hear_header() {
    LinkHeader header;
    hear(std::as_writable_bytes(std::span(&header, 1)));
    return header;
  }
  std::vector<float> hear(std::size_t count) {
    std::vector<float> values(count);
    hear(std::as_writable_bytes(std::span(values)));
    return values;
  }
  void hear(std::span<std::byte> bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::recv(socket_.fd(), bytes.data() + done, bytes.size() - done, 0);
      REQUIRE(count > 0);
      done += static_cast<std::size_t>(count);
    }
  }

  // What the other end has not read of what was said.
  int waiting() const {
    int bytes = 0;
    return ::ioctl(other_, FIONREAD, &bytes) == 0 ? bytes : -1;
  }
  void await_taken() const {
    for (int tries = 0; waiting() > 0; ++tries) {
      REQUIRE(tries < 20'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void leave() { socket_.reset(); }

 private:
  Socket socket_;
  int other_;
};

}  // namespace elastictrain::comm::testing
