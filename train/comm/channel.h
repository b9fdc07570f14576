// Purpose: a connection of the data plane after its handshake: bytes go over the socket as they are, or as records that
// are checked before anything of them is delivered (record_cipher.h).
//
// Ownership: closes its socket. Thread: one at a time; shut_down() from any. Failure: kPeerLost if the peer is gone, or
// if a record is not what the peer sent: the message names both ends, and the connection is of no further use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "supervisor/protocol/result.h"
#include "train/comm/record_keys.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {

class RecordReader;
class RecordWriter;

class Channel {
 public:
  // `ends`: for messages, for example "from rank 1 to rank 0".
  explicit Channel(Socket socket = {}, const RecordSecrets& secrets = {}, std::string ends = {});
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  ~Channel();

  int fd() const { return socket_.fd(); }
  bool valid() const { return socket_.valid(); }
  void shut_down() noexcept;
  // For a connection without records.
  Socket take_socket() && { return std::move(socket_); }

  // Bytes that have left, or have arrived; 0 if it would block. Bytes may be under way that are not counted yet: after
  // fewer bytes than offered, the next call offers those that follow, as they were.
  Result<std::size_t> try_send(std::span<const std::byte> data);
  Result<std::size_t> try_receive(std::span<std::byte> data);
  // As try_receive(), but saves a copy: bytes may lie in `room` that are neither checked nor counted. Until a call has
  // counted some, the next call offers the same room, and nothing else uses it.
  Result<std::size_t> try_receive_in_place(std::span<std::byte> room);
  // The next bytes, if that many have arrived. They are not consumed.
  Result<bool> peek(std::span<std::byte> data);
  // try_receive() would deliver something even if the socket is not readable.
  bool holds_bytes() const;

 private:
  Socket socket_;
  std::unique_ptr<RecordWriter> writer_;  // null: no records
  std::unique_ptr<RecordReader> reader_;
};

// For Channel: "from rank 1 to rank 0".
std::string name_ends(std::uint32_t from_rank, std::uint32_t to_rank);

// All of it, in both cases with a wait.
Status send_all(Channel& channel, std::span<const std::byte> data, const CancelToken& cancel, Deadline deadline);
Status receive_all(Channel& channel, std::span<std::byte> data, const CancelToken& cancel, Deadline deadline);

}  // namespace elastictrain::comm
