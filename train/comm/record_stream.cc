#include "train/comm/record_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "train/comm/socket_address.h"

namespace elastictrain::comm {
namespace {

// One record, and what has arrived of the next.
constexpr std::size_t kBufferBytes = 2 * (kMaxRecordBytes + kRecordOverheadBytes);

bool would_block() {
  return errno == EAGAIN || errno == EINTR;
}

// The parts of a record behind its first bytes, which have left; returns how many parts these are.
std::size_t rest_of(const SealedRecord& record, std::size_t written, std::array<iovec, 3>& parts) {
  std::size_t count = 0;
  for (const std::span<const std::byte> part : {std::span<const std::byte>(record.header), record.body,
                                                std::span<const std::byte>(record.tag)}) {
    const std::size_t gone = std::min(written, part.size());
    written -= gone;
    if (gone < part.size()) parts[count++] = {const_cast<std::byte*>(part.data()) + gone, part.size() - gone};
  }
  return count;
}

}  // namespace

Error lost_connection(int error_number) {
  return Error{ErrorCode::kPeerLost, error_number == 0 ? "it closed the connection" : std::strerror(error_number)};
}

Result<std::size_t> RecordWriter::write(int fd, std::span<const std::byte> data) {
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
    const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return would_block() ? Result<bool>(false) : lost_connection(errno);
    written_ += static_cast<std::size_t>(n);
  }
  return true;
}

RecordReader::RecordReader(protocol::Encryption level, const RecordSecret& secret, std::string ends)
    : cipher_(level, secret), ends_(std::move(ends)), buffer_(kBufferBytes) {}

Result<std::size_t> RecordReader::read(int fd, std::span<std::byte> data) {
  std::size_t done = deliver(data);
  while (done < data.size()) {
    if (whole_record() == 0) {
      const auto more = fill(fd);
      if (!more && done > 0) return done;  // the next call has the same error
      if (!more) return more.error();
      if (!*more) break;
      continue;
    }
    const auto rest = data.subspan(done);
    const std::size_t size = record_content_bytes(arrived());
    const bool fits = size <= rest.size();
    const auto opened = fits ? open(rest.first(size)) : hold_record();
    if (!opened) return forged(fd);
    done += fits ? size : deliver(rest);
  }
  return done;
}

Result<bool> RecordReader::peek(int fd, std::span<std::byte> data) {
  while (held_begin_ == held_end_) {
    if (whole_record() > 0) {
      if (!hold_record()) return forged(fd);
      break;
    }
    const auto more = fill(fd);
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

Result<bool> RecordReader::fill(int fd) {
  const bool has_header = arrived().size() >= kRecordHeaderBytes;
  const std::size_t size = has_header ? record_content_bytes(arrived()) : 1;
  if (size == 0 || size > kMaxRecordBytes) return forged(fd);
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  const ssize_t n = ::recv(fd, buffer_.data() + end_, buffer_.size() - end_, MSG_DONTWAIT);
  if (n <= 0) return n < 0 && would_block() ? Result<bool>(false) : lost_connection(n == 0 ? 0 : errno);
  end_ += static_cast<std::size_t>(n);
  return true;
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

}  // namespace elastictrain::comm
