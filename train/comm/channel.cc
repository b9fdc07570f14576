#include "train/comm/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "train/comm/record_stream.h"

namespace elastictrain::comm {
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
