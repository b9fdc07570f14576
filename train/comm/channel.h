// Purpose: connection of the data plane after its handshake: plain bytes, or a stream of protected records.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/comm/record_cipher.h"
#include "train/comm/socket.h"

// A stream of bytes as records (record_cipher.h) over a socket that does not block. Each end keeps what does
// not fit in between: the writer the rest of a record, the reader bytes that are not asked for yet.
//
// Ownership: borrows the socket. Thread: one at a time. Failure: as in channel.h.

namespace elastictrain::comm {

// What a call on a socket that does not block has returned: bytes, 0 if it would block, or kPeerLost.
Result<std::size_t> moved_bytes(ssize_t returned);

class RecordWriter {
 public:
  RecordWriter(protocol::Encryption level, const RecordSecret& secret) : cipher_(level, secret) {}

  // Content of records that have left completely. A call after one that left some of its bytes offers the same again:
  // what is under way may be in part there.
  Result<std::size_t> write(int fd, std::span<const std::byte> data);

 private:
  void seal(std::span<const std::byte> content);
  Result<bool> flush(int fd);

  RecordCipher cipher_;
  std::vector<std::byte> room_;  // for what is encrypted
  SealedRecord record_;
  std::size_t content_bytes_ = 0;  // of the record that is under way; 0: none
  std::size_t written_ = 0;        // of its bytes
};

class RecordReader {
 public:
  RecordReader(protocol::Encryption level, const RecordSecret& secret, std::string ends);

  Result<std::size_t> read(int fd, std::span<std::byte> data);
  // As read(), but a record that is not encrypted arrives in `room` itself if it fits, before it is checked: see
  // Channel::try_receive_in_place().
  Result<std::size_t> read_in_place(int fd, std::span<std::byte> room);
  Result<bool> peek(int fd, std::span<std::byte> data);
  bool holds_bytes() const { return held_begin_ < held_end_ || whole_record() > 0; }

 private:
  std::span<const std::byte> arrived() const { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  // Size of the record at the front if all of it has arrived, otherwise 0.
  std::size_t whole_record() const;
  // Delivers what has arrived in whole records.
  Result<std::size_t> take(int fd, std::span<std::byte> data);
  // False: nothing more is there. Asks for the rest of the record at the front; `unknown`: bytes to ask for if its size
  // is not known.
  Result<bool> fill(int fd, std::size_t unknown);
  // True: the record at the front continues in `room`.
  bool begin_in_place(std::span<std::byte> room);
  Result<std::size_t> finish_in_place(int fd, std::span<std::byte> room);
  Status open(std::span<std::byte> content);
  Status hold_record();
  std::size_t deliver(std::span<std::byte> data);
  Error forged(int fd) const;

  RecordCipher cipher_;
  std::string ends_;
  std::vector<std::byte> buffer_;  // as it arrived
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<std::byte> held_;  // the content of one record, opened and not delivered yet
  std::size_t held_begin_ = 0;
  std::size_t held_end_ = 0;
  // Of the record that arrives in the caller's room.
  std::size_t body_bytes_ = 0;                                        // 0: none does
  std::size_t arrived_in_place_ = 0;                                  // body and tail
  std::array<std::byte, kRecordTagBytes + kRecordHeaderBytes> tail_;  // its tag and the header of the next record
};

// A connection of the data plane after its handshake: bytes go over the socket as they are, or as records that
// are checked before anything of them is delivered (record_cipher.h).
//
// Ownership: closes its socket. Thread: one at a time; shut_down() from any. Failure: kPeerLost if the peer is gone, or
// if a record is not what the peer sent: the message names both ends, and the connection is of no further use.

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
