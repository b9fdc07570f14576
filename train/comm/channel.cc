#include "train/comm/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {
namespace {

// One record, and what has arrived of the next.
constexpr std::size_t kBufferBytes = 2 * (kMaxRecordBytes + kRecordOverheadBytes);
// Small records arrive several at a time, and no more than this of the next large one, which has to be copied.
constexpr std::size_t kAheadBytes = 16 << 10;

// The parts of a record behind its first bytes, which have left; returns how many parts these are.
std::size_t rest_of(const SealedRecord& record, std::size_t written, std::array<iovec, 3>& parts) {
  std::size_t count = 0;
  for (const std::span<const std::byte> part :
       {std::span<const std::byte>(record.header), record.body, std::span<const std::byte>(record.tag)}) {
    const std::size_t gone = std::min(written, part.size());
    written -= gone;
    if (gone < part.size()) parts[count++] = {const_cast<std::byte*>(part.data()) + gone, part.size() - gone};
  }
  return count;
}

}  // namespace

Result<std::size_t> moved_bytes(ssize_t returned) {
  if (returned > 0) return static_cast<std::size_t>(returned);
  if (returned < 0 && (errno == EAGAIN || errno == EINTR)) return std::size_t{0};
  return Error{ErrorCode::kPeerLost, returned == 0 ? "it closed the connection" : std::strerror(errno)};
}

Result<std::size_t> RecordWriter::write(int fd, std::span<const std::byte> data) {
  ET_CHECK(content_bytes_ == 0 || data.empty() || data.size() >= content_bytes_, "what is under way is offered again");
  std::size_t left = 0;
  while (left < data.size()) {
    if (content_bytes_ == 0) seal(data.subspan(left, std::min(kMaxRecordBytes, data.size() - left)));
    if (!cipher_.encrypts()) record_.body = data.subspan(left, content_bytes_);
    const auto flushed = flush(fd);
    if (!flushed) return flushed.error();
    if (!*flushed) break;
    left += std::exchange(content_bytes_, 0);
  }
  return left;
}

void RecordWriter::seal(std::span<const std::byte> content) {
  content_bytes_ = content.size();
  written_ = 0;
  if (cipher_.encrypts()) room_.resize(std::max(room_.size(), content.size()));
  record_ = cipher_.seal(content, room_);
}

Result<bool> RecordWriter::flush(int fd) {
  const std::size_t size = content_bytes_ + kRecordOverheadBytes;
  while (written_ < size) {
    std::array<iovec, 3> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = rest_of(record_, written_, parts);
    const auto n = moved_bytes(::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (!n) return n.error();
    if (*n == 0) return false;
    written_ += *n;
  }
  return true;
}

RecordReader::RecordReader(protocol::Encryption level, const RecordSecret& secret, std::string ends)
    : cipher_(level, secret), ends_(std::move(ends)), buffer_(kBufferBytes) {}

Result<std::size_t> RecordReader::read(int fd, std::span<std::byte> data) {
  if (body_bytes_ > 0) return finish_in_place(fd, data);
  for (std::size_t done = 0;;) {
    const auto taken = take(fd, data.subspan(done));
    if (!taken) return taken;
    done += *taken;
    if (done == data.size()) return done;
    const auto more = fill(fd, buffer_.size());
    if (!more && done > 0) return done;  // the next call has the same error
    if (!more) return more.error();
    if (!*more) return done;
  }
}

Result<std::size_t> RecordReader::read_in_place(int fd, std::span<std::byte> room) {
  if (cipher_.encrypts() || room.empty()) return read(fd, room);
  while (body_bytes_ == 0) {
    const auto taken = take(fd, room);
    if (!taken || *taken > 0) return taken;
    if (begin_in_place(room)) break;
    const auto more = fill(fd, kAheadBytes);
    if (!more) return more.error();
    if (!*more) return std::size_t{0};
  }
  return finish_in_place(fd, room);
}

Result<std::size_t> RecordReader::take(int fd, std::span<std::byte> data) {
  std::size_t done = deliver(data);
  while (done < data.size() && whole_record() > 0) {
    const auto rest = data.subspan(done);
    const std::size_t size = record_content_bytes(arrived());
    const bool fits = size <= rest.size();
    const auto opened = fits ? open(rest.first(size)) : hold_record();
    if (!opened) return forged(fd);
    done += fits ? size : deliver(rest);
  }
  return done;
}

bool RecordReader::begin_in_place(std::span<std::byte> room) {
  if (arrived().size() < kRecordHeaderBytes) return false;
  const std::size_t size = record_content_bytes(arrived());
  if (size == 0 || size > std::min(room.size(), kMaxRecordBytes)) return false;
  const auto rest = arrived().subspan(kRecordHeaderBytes);
  const auto body = rest.first(std::min(rest.size(), size));
  std::ranges::copy(body, room.begin());
  std::ranges::copy(rest.subspan(body.size()), tail_.begin());
  body_bytes_ = size;
  arrived_in_place_ = rest.size();
  begin_ = end_ = 0;
  return true;
}

Result<std::size_t> RecordReader::finish_in_place(int fd, std::span<std::byte> room) {
  ET_CHECK(room.size() >= body_bytes_, "a record that arrives in place keeps its room");
  const std::size_t record = body_bytes_ + kRecordTagBytes;
  while (arrived_in_place_ < record) {
    const std::size_t in_body = std::min(arrived_in_place_, body_bytes_);
    const std::size_t in_tail = arrived_in_place_ - in_body;
    std::array<iovec, 2> parts{
        {{room.data() + in_body, body_bytes_ - in_body}, {tail_.data() + in_tail, tail_.size() - in_tail}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const auto n = moved_bytes(::recvmsg(fd, &message, MSG_DONTWAIT));
    if (!n || *n == 0) return n;
    arrived_in_place_ += *n;
  }
  if (!cipher_.authentic(room.first(body_bytes_), std::span(tail_).first(kRecordTagBytes))) return forged(fd);
  end_ = arrived_in_place_ - record;
  std::memcpy(buffer_.data(), tail_.data() + kRecordTagBytes, end_);
  return std::exchange(body_bytes_, 0);
}

Result<bool> RecordReader::peek(int fd, std::span<std::byte> data) {
  if (body_bytes_ > 0) return false;
  while (held_begin_ == held_end_) {
    if (whole_record() > 0) {
      if (!hold_record()) return forged(fd);
      break;
    }
    const auto more = fill(fd, buffer_.size());
    if (!more || !*more) return more;
  }
  if (held_end_ - held_begin_ < data.size()) return false;
  std::memcpy(data.data(), held_.data() + held_begin_, data.size());
  return true;
}

std::size_t RecordReader::whole_record() const {
  const auto bytes = arrived();
  if (bytes.size() < kRecordHeaderBytes) return 0;
  const std::size_t size = record_content_bytes(bytes) + kRecordOverheadBytes;
  return bytes.size() < size ? 0 : size;
}

Result<bool> RecordReader::fill(int fd, std::size_t unknown) {
  const bool has_header = arrived().size() >= kRecordHeaderBytes;
  const std::size_t size = has_header ? record_content_bytes(arrived()) : 1;
  if (size == 0 || size > kMaxRecordBytes) return forged(fd);
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  const std::size_t most =
      has_header ? std::max(size + kRecordOverheadBytes + kRecordHeaderBytes, kAheadBytes) : unknown;
  const auto n = moved_bytes(::recv(fd, buffer_.data() + end_, most - end_, MSG_DONTWAIT));
  if (!n) return n.error();
  end_ += *n;
  return *n > 0;
}

Status RecordReader::open(std::span<std::byte> content) {
  const std::size_t size = content.size() + kRecordOverheadBytes;
  const auto record = arrived().first(size);
  begin_ += size;
  if (cipher_.open(record, content)) return {};
  return Error{ErrorCode::kPeerLost, "forged"};
}

Status RecordReader::hold_record() {
  held_begin_ = 0;
  held_end_ = record_content_bytes(arrived());
  held_.resize(std::max(held_.size(), held_end_));
  return open(std::span(held_).first(held_end_));
}

std::size_t RecordReader::deliver(std::span<std::byte> data) {
  const std::size_t size = std::min(data.size(), held_end_ - held_begin_);
  if (size > 0) std::memcpy(data.data(), held_.data() + held_begin_, size);
  held_begin_ += size;
  return size;
}

// Said here as well: the peers see a closed connection only, and may report that earlier.
Error RecordReader::forged(int fd) const {
  const std::string what = "what arrived " + ends_ + " (" + ends_of(fd) +
                           ") is not what was sent: something in between changes the data. "
                           "Check the network between these hosts";
  std::fprintf(stderr, "elastictrain: %s\n", what.c_str());
  return Error{ErrorCode::kPeerLost, what};
}

namespace {

// Repeats `transfer`, which is given the number of bytes that are done.
template <class Transfer>
Status move_all(const Channel& channel, std::size_t size, short events, const CancelToken& cancel, Deadline deadline,
                Transfer transfer) {
  for (std::size_t done = 0; done < size;) {
    if (cancel.cancelled()) return Error{ErrorCode::kAborted, "the transfer was cancelled"};
    const Result<std::size_t> n = transfer(done);
    if (!n) return n.error();
    done += *n;
    if (*n > 0) continue;
    if (auto ready = wait_ready(channel.fd(), events, cancel, deadline); !ready) return ready;
  }
  return {};
}

}  // namespace

Channel::Channel(Socket socket, const RecordSecrets& secrets, std::string ends) : socket_(std::move(socket)) {
  if (secrets.level == protocol::Encryption::kNone) return;
  writer_ = std::make_unique<RecordWriter>(secrets.level, secrets.sent);
  reader_ = std::make_unique<RecordReader>(secrets.level, secrets.received, std::move(ends));
}

Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

void Channel::shut_down() noexcept {
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

Result<std::size_t> Channel::try_send(std::span<const std::byte> data) {
  if (writer_) return writer_->write(socket_.fd(), data);
  if (data.empty()) return std::size_t{0};
  return moved_bytes(::send(socket_.fd(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Result<std::size_t> Channel::try_receive(std::span<std::byte> data) {
  if (reader_) return reader_->read(socket_.fd(), data);
  if (data.empty()) return std::size_t{0};
  return moved_bytes(::recv(socket_.fd(), data.data(), data.size(), MSG_DONTWAIT));
}

Result<std::size_t> Channel::try_receive_in_place(std::span<std::byte> room) {
  return reader_ ? reader_->read_in_place(socket_.fd(), room) : try_receive(room);
}

Result<bool> Channel::peek(std::span<std::byte> data) {
  if (reader_) return reader_->peek(socket_.fd(), data);
  return ::recv(socket_.fd(), data.data(), data.size(), MSG_PEEK | MSG_DONTWAIT) == static_cast<ssize_t>(data.size());
}

bool Channel::holds_bytes() const {
  return reader_ && reader_->holds_bytes();
}

std::string name_ends(std::uint32_t from_rank, std::uint32_t to_rank) {
  return "from rank " + std::to_string(from_rank) + " to rank " + std::to_string(to_rank);
}

Status send_all(Channel& channel, std::span<const std::byte> data, const CancelToken& cancel, Deadline deadline) {
  return move_all(channel, data.size(), POLLOUT, cancel, deadline,
                  [&](std::size_t done) { return channel.try_send(data.subspan(done)); });
}

Status receive_all(Channel& channel, std::span<std::byte> data, const CancelToken& cancel, Deadline deadline) {
  return move_all(channel, data.size(), POLLIN, cancel, deadline,
                  [&](std::size_t done) { return channel.try_receive(data.subspan(done)); });
}

}  // namespace elastictrain::comm
