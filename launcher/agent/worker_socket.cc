#include "launcher/agent/worker_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/write.hpp>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kBlockBytes = 64 << 10;
constexpr std::size_t kMaxQueuedBytes = 64u << 20;
constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::milliseconds kAcceptPause{200};

ucred credentials_of(int socket) {
  ucred peer{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t bytes = sizeof peer;
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
  return peer;
}

}  // namespace

WorkerSocket::Peer::Peer(Protocol::socket connected, std::size_t max_bytes)
    : socket(std::move(connected)), reader(max_bytes), pause(socket.get_executor()), block(kBlockBytes) {}

WorkerSocket::WorkerSocket(asio::io_context& io, WorkerId worker, Handlers handlers)
    : io_(io), worker_(worker), handlers_(std::move(handlers)), acceptor_(io), accept_pause_(io) {}

Result<std::shared_ptr<WorkerSocket>> WorkerSocket::open(asio::io_context& io, const std::string& path, WorkerId worker,
                                                         Handlers handlers) {
  auto socket = std::make_shared<WorkerSocket>(io, worker, std::move(handlers));
  const Status listening = socket->listen(path);
  if (!listening) return listening.error();
  socket->accept();
  return socket;
}

Status WorkerSocket::listen(const std::string& path) {
  asio::error_code error;
  acceptor_.open(Protocol(), error);
  if (!error) acceptor_.bind(Protocol::endpoint(path), error);
  if (!error) ::chmod(path.c_str(), 0600);
  if (!error) acceptor_.listen(16, error);
  if (!error) return {};
  return Error{ErrorCode::kIo, "cannot listen on the worker's socket " + path + ": " + error.message()};
}

void WorkerSocket::accept() {
  acceptor_.async_accept([self = shared_from_this()](const asio::error_code& error, Protocol::socket socket) {
    if (self->closed_) return;
    if (error) return self->accept_later();
    self->admit(std::move(socket));
    self->accept();
  });
}

// Probably out of descriptors: the connection waits in the queue, and an immediate retry would only use CPU time.
void WorkerSocket::accept_later() {
  accept_pause_.expires_after(kAcceptPause);
  accept_pause_.async_wait([self = shared_from_this()](const asio::error_code&) {
    if (!self->closed_) self->accept();
  });
}

void WorkerSocket::admit(Protocol::socket socket) {
  const ucred credentials = credentials_of(socket.native_handle());
  if (credentials.uid != ::geteuid()) {
    return handlers_.on_fault("refused a connection to its socket from user id " + std::to_string(credentials.uid));
  }
  peer_pid_ = credentials.pid;
  asio::error_code ignored;
  if (peer_) peer_->socket.close(ignored);
  peer_ = std::make_shared<Peer>(std::move(socket), limits::kMaxWorkerFrameBytes);
  read(peer_);
  write(peer_);
}

void WorkerSocket::read(const PeerPtr& peer) {
  peer->socket.async_read_some(asio::buffer(peer->block),
                               [self = shared_from_this(), peer](const asio::error_code& error, std::size_t count) {
                                 if (!self->is_current(peer)) return;
                                 if (error) return self->drop(peer, {});
                                 self->take(peer, count);
                               });
}

void WorkerSocket::take(const PeerPtr& peer, std::size_t count) {
  const Status fed = peer->reader.feed({peer->block.data(), count});
  if (!fed) return drop(peer, "sent malformed data on its socket (" + fed.error().message + ")");
  while (is_current(peer)) {
    const auto body = peer->reader.next();
    if (!body) break;
    deliver(peer, *body);
  }
  if (!is_current(peer)) return;
  if (peer->reader.failed()) return drop(peer, "sent malformed data on its socket (a frame is too large)");
  if (may_read()) return read(peer);
  resume_later(peer);
}

void WorkerSocket::deliver(const PeerPtr& peer, const std::string& body) {
  auto message = protocol::decode_body<protocol::WorkerToAgent>(body);
  if (!message) return drop(peer, "sent malformed data on its socket (" + message.error().message + ")");
  const auto* hello = std::get_if<protocol::WorkerHello>(&*message);
  if (hello != nullptr && hello->worker != worker_) {
    return drop(peer, "introduced itself as " + to_string(hello->worker) + " on its socket");
  }
  handlers_.on_message(std::move(*message));
}

void WorkerSocket::resume_later(const PeerPtr& peer) {
  peer->pause.expires_after(kPause);
  peer->pause.async_wait([self = shared_from_this(), peer](const asio::error_code& error) {
    if (error || !self->is_current(peer)) return;
    if (self->may_read()) return self->read(peer);
    self->resume_later(peer);
  });
}

void WorkerSocket::send(std::shared_ptr<const std::string> frame) {
  if (closed_) return;
  queued_bytes_ += frame->size();
  queue_.push_back(std::move(frame));
  if (queued_bytes_ > kMaxQueuedBytes) {
    const auto waiting = std::to_string(queued_bytes_);
    queue_.clear();
    queued_bytes_ = 0;
    if (peer_) return drop(peer_, "does not read its socket (" + waiting + " bytes are queued for it)");
    return handlers_.on_fault("is not connected and " + waiting + " bytes were queued for it; they were dropped");
  }
  if (peer_) write(peer_);
}

// A frame leaves the queue only when all of it is written: after a reconnect it is sent again from its start.
void WorkerSocket::write(const PeerPtr& peer) {
  if (queue_.empty() || writing_to_ == peer) return;
  writing_to_ = peer;
  const auto frame = queue_.front();
  asio::async_write(peer->socket, asio::buffer(*frame),
                    [self = shared_from_this(), peer, frame](const asio::error_code& error, std::size_t) {
                      if (self->writing_to_ == peer) self->writing_to_.reset();
                      if (!self->is_current(peer)) return;
                      if (error) return self->drop(peer, {});
                      if (!self->queue_.empty() && self->queue_.front() == frame) {
                        ET_CHECK(self->queued_bytes_ >= frame->size(), "what has left the queue was counted in it");
                        self->queued_bytes_ -= frame->size();
                        self->queue_.pop_front();
                      }
                      self->write(peer);
                    });
}

void WorkerSocket::drop(const PeerPtr& peer, const std::string& fault) {
  asio::error_code ignored;
  peer->socket.close(ignored);
  peer->pause.cancel();
  if (peer_ == peer) peer_.reset();
  if (!fault.empty()) handlers_.on_fault(fault + "; its connection was closed");
  if (!closed_) handlers_.on_disconnect();
}

bool WorkerSocket::drained() const {
  pollfd waiting{const_cast<Protocol::acceptor&>(acceptor_).native_handle(), POLLIN, 0};
  return peer_ == nullptr && ::poll(&waiting, 1, 0) <= 0;
}

void WorkerSocket::close() {
  if (closed_) return;
  closed_ = true;
  asio::error_code ignored;
  acceptor_.close(ignored);
  accept_pause_.cancel();
  if (peer_) drop(peer_, {});
}

}  // namespace elastictrain::launcher
