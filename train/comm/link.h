// Purpose: one TCP connection to a neighbour, used in both directions without blocking, and the wait of the
// communicator for several of them.
//
// Ownership: a Link owns its channel until it is destroyed. shut_down() only ends the traffic, so that abort() from
// another thread never uses a descriptor that was closed and reused. Thread: the communicator's; shut_down() from any.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "train/comm/channel.h"
#include "train/comm/operation.h"

namespace elastictrain::comm {

// Sent before every operation on every link that the operation uses.
struct LinkHeader {
  std::uint32_t kind = 0;
  std::uint32_t sequence = 0;
  std::uint64_t bytes = 0;  // of the whole operation
  bool operator==(const LinkHeader&) const = default;
};

class Link {
 public:
  Link(Channel channel, std::uint32_t peer) : channel_(std::move(channel)), peer_(peer) {}

  // Bytes moved; 0 if it would block. See channel.h.
  Result<std::size_t> try_send(std::span<const std::byte> data);
  Result<std::size_t> try_receive(std::span<std::byte> data);
  Result<std::size_t> try_receive_in_place(std::span<std::byte> room);

  // The header at the front of the received bytes, if it is complete. It is not consumed.
  std::optional<LinkHeader> peek_header();

  void shut_down() noexcept { channel_.shut_down(); }
  int fd() const { return channel_.fd(); }
  std::uint32_t peer() const { return peer_; }
  std::uint64_t sent_bytes() const { return sent_bytes_; }
  std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  Result<std::size_t> counted(Result<std::size_t> moved, std::uint64_t& count) const;

  Channel channel_;
  std::uint32_t peer_;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
};

Status check_link_header(const LinkHeader& mine, const LinkHeader& theirs, std::uint32_t peer);

// One wait of one operation. Call pause() whenever nothing could be moved. It polls, yields or sleeps, and returns an
// error when the operation must end.
class LinkWait {
 public:
  // `also_watch`: a descriptor that runs `on_watch` when it is readable (-1: none).
  LinkWait(const OpControl& control, int also_watch, const std::function<Status()>& on_watch)
      : control_(control), also_watch_(also_watch), on_watch_(on_watch) {}

  void moved() { idle_ = 0; }
  bool sleeps() const { return idle_ > (control_.crowded() ? kCrowdedTriesBeforeSleep : kTriesBeforeSleep); }
  Status pause(std::span<const pollfd> interests);

 private:
  // A failed attempt costs a system call, so the thread makes few of them before it sleeps in poll(2).
  static constexpr int kTriesBeforeSleep = 200;
  // The scheduler soon runs a sleeping thread whose data has arrived, but puts a yielding thread behind all others.
  static constexpr int kCrowdedTriesBeforeSleep = 20;

  Status sleep(std::span<const pollfd> interests);

  const OpControl& control_;
  int also_watch_;
  const std::function<Status()>& on_watch_;
  int idle_ = 0;
  std::vector<pollfd> fds_;
};

}  // namespace elastictrain::comm
