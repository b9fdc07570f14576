#include "supervisor/cluster/cluster_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/check.h"
#include "supervisor/transport/local_listener.h"

namespace elastictrain::cluster {
namespace {

using ClusterSocket = asio::local::stream_protocol::socket;

using ServerClock = std::chrono::steady_clock;

constexpr std::size_t kMaxBuffered = 64u << 20;  // the queue of 20,000 jobs fits
constexpr std::size_t kKeptCapacity = 4096;
constexpr double kReadAgain_s = 0.05;

// As far as it goes without waiting.
void send_now(int socket, std::string_view line) {
  (void)::send(socket, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

class Connected;

// Of one user, or without bounds: the cluster's own and root.
struct UserAccount {
  bool bounded = true;
  std::size_t connections = 0;
  std::size_t bytes = 0;  // of lines that are not whole yet, or wait
  double lines = 0;       // in the bucket; below 0: how far it is overdrawn
  double records = 0;     // in another bucket, the same
  ServerClock::time_point filled = ServerClock::now();

  void fill(const ServerBounds& bounds) {
    const auto now = ServerClock::now();
    const double passed_s = std::chrono::duration<double>(now - filled).count();
    filled = now;
    lines = std::min(bounds.lines_at_once, lines + passed_s * bounds.lines_per_s);
    records = std::min(bounds.records_at_once, records + passed_s * bounds.records_per_s);
  }
  bool is_full(const ServerBounds& bounds) const {
    return lines >= bounds.lines_at_once && records >= bounds.records_at_once;
  }
};

struct ServerState {
  explicit ServerState(const ServerBounds& given) : bounds(given) {}
  ServerBounds bounds;
  std::map<std::uint32_t, UserAccount> users;  // that are connected, or whose buckets are not full again
  ClusterServer::Handlers handlers;
  std::map<std::uint64_t, std::shared_ptr<Connected>> connected;
  bool closed = false;
};

class Connected : public std::enable_shared_from_this<Connected> {
 public:
  Connected(std::uint64_t number, Peer peer, ClusterSocket socket, ServerState& state)
      : number_(number),
        peer_(peer),
        socket_(std::move(socket)),
        silence_(socket_.get_executor()),
        delay_(socket_.get_executor()),
        state_(&state),
        bounded_(state.users[peer.uid].bounded) {
    ++state.users[peer.uid].connections;
  }

  void begin() {
    asio::error_code error;
    socket_.non_blocking(true, error);
    if (error) return drop(true);
    expire();
    read();
  }
  void keep() {
    kept_ = true;
    silence_.cancel();
  }
  void send(const std::string& line) {
    if (closing_ || state_ == nullptr) return;
    charge(line.size());
    if (!has_room_for(line.size() + 1)) return drop(true);
    buffered_ += line.size() + 1;
    user().bytes += line.size() + 1;
    lines_.push_back(line + "\n");
    if (lines_.size() == 1) write();
  }
  // Nothing in the middle of another line.
  void send_last(const std::string& line) {
    if (closing_ || state_ == nullptr || !lines_.empty()) return;
    send_now(socket_.native_handle(), line + "\n");
  }
  void note_record() {
    if (bounded_ && state_ != nullptr) user().records -= 1;
  }
  void finish() {
    closing_ = true;
    if (state_ == nullptr) return;
    if (lines_.empty()) return drop(false);
    kept_ = false;
    expire();
  }
  // The server is gone.
  void forget() {
    state_ = nullptr;
    asio::error_code ignored;
    socket_.close(ignored);
    silence_.cancel();
    delay_.cancel();
  }

 private:
  UserAccount& user() { return state_->users[peer_.uid]; }
  std::size_t longest_line() const { return bounded_ ? state_->bounds.line_bytes : kMaxLineBytes; }

  // One line always has, however long it is.
  bool has_room_for(std::size_t bytes) {
    if (!bounded_) return buffered_ + bytes <= kMaxBuffered;
    return buffered_ == 0 ||
           (buffered_ <= state_->bounds.waiting_bytes && user().bytes <= state_->bounds.bytes_of_user);
  }

  void charge(std::size_t bytes) {
    if (bounded_) user().lines -= 1 + static_cast<double>(bytes) / static_cast<double>(state_->bounds.bytes_of_line);
  }

  // Seconds until the user may say something again.
  double wait_s() {
    if (!bounded_) return 0;
    UserAccount& account = user();
    account.fill(state_->bounds);
    return std::max(
        {0.0, -account.lines / state_->bounds.lines_per_s, -account.records / state_->bounds.records_per_s});
  }

  void expire() {
    if (kept_) return;
    silence_.expires_after(state_->bounds.silence);
    silence_.async_wait([weak = weak_from_this()](asio::error_code error) {
      const auto self = weak.lock();
      if (self != nullptr && !error) self->drop(true);
    });
  }

  // One line at a time: none is looked for while something waits to be sent, or the one before it waits.
  void read() {
    if (reading_ || !lines_.empty()) return;
    reading_ = true;
    if (input_.find('\n') != std::string::npos) {
      return asio::post(socket_.get_executor(), [self = shared_from_this()] { self->take(); });
    }
    listen();
  }

  void listen() {
    socket_.async_wait(ClusterSocket::wait_read,
                       [self = shared_from_this()](asio::error_code error) { self->receive(error); });
  }

  // What has arrived stays in the kernel while the user has too much here, or has said too much.
  void receive(asio::error_code error) {
    if (state_ == nullptr || closing_) return;
    if (error) return drop(true);
    if (const double wait = wait_s(); wait > 0) {
      silence_.cancel();
      return delay(wait, [self = shared_from_this()] { self->receive_again(); });
    }
    if (bounded_ && user().bytes > state_->bounds.bytes_of_user) {
      return delay(kReadAgain_s, [self = shared_from_this()] { self->receive({}); });
    }
    std::array<char, 64 * 1024> block;
    const std::size_t room = std::min(block.size(), longest_line() - input_.size());
    const std::size_t count = socket_.read_some(asio::buffer(block.data(), room), error);
    if (error && error != asio::error::would_block) return drop(true);
    input_.append(block.data(), count);
    user().bytes += count;
    if (input_.find('\n', input_.size() - count) != std::string::npos) return take();
    if (input_.size() < longest_line()) return listen();
    refuse_line();
  }

  // What somebody who has gone meanwhile wanted need not be done, and takes no turn of the user's others.
  bool has_gone() {
    pollfd looked{socket_.native_handle(), 0, 0};
    return ::poll(&looked, 1, 0) == 1 && (looked.revents & (POLLHUP | POLLERR)) != 0;
  }

  void take_again() {
    if (state_ == nullptr || closing_) return;
    if (has_gone()) return drop(true);
    take();
  }

  void receive_again() {
    if (state_ == nullptr || closing_) return;
    if (has_gone()) return drop(true);
    expire();
    receive({});
  }

  template <class Then>
  void delay(double wait, Then then) {
    delay_.expires_after(std::chrono::microseconds(static_cast<std::int64_t>(wait * 1e6) + 1));
    delay_.async_wait([then](asio::error_code error) {
      if (!error) then();
    });
  }

  // Once the user may say something; other connections may have said much since it was read.
  void take() {
    if (state_ == nullptr || closing_) return;
    const double wait = wait_s();
    if (wait <= 0) return hand_over();
    silence_.cancel();
    delay(wait, [self = shared_from_this()] { self->take_again(); });
  }

  void hand_over() {
    const std::size_t length = input_.find('\n') + 1;
    const std::string line = input_.substr(0, length - 1);
    input_.erase(0, length);
    if (input_.size() < kKeptCapacity && input_.capacity() > kKeptCapacity) input_.shrink_to_fit();
    ET_CHECK(user().bytes >= length, "what waits of a user is counted");
    user().bytes -= length;
    reading_ = false;
    expire();
    charge(length);
    const auto self = shared_from_this();
    state_->handlers.line(number_, peer_, line);
    if (state_ != nullptr && !closing_) read();
  }

  void refuse_line() {
    const auto self = shared_from_this();
    charge(input_.size());
    send(R"({"ok":false,"status":78,"text":"the line is too long"})");
    if (state_ == nullptr) return;
    state_->handlers.closed(number_);
    finish();
  }

  void write() {
    asio::async_write(socket_, asio::buffer(lines_.front()),
                      [self = shared_from_this()](asio::error_code error, std::size_t) { self->written(error); });
  }

  void written(asio::error_code error) {
    if (state_ == nullptr) return;
    if (error) return drop(!closing_);
    ET_CHECK(buffered_ >= lines_.front().size(), "lines that wait are counted");
    buffered_ -= lines_.front().size();
    user().bytes -= lines_.front().size();
    lines_.pop_front();
    if (!lines_.empty()) return write();
    if (closing_) return drop(false);
    read();
  }

  void drop(bool tell) {
    if (state_ == nullptr) return;
    UserAccount& account = user();
    ET_CHECK(account.connections > 0, "a user's connections are counted");
    ET_CHECK(account.bytes >= buffered_ + input_.size(), "what waits of a user is counted");
    --account.connections;
    account.bytes -= buffered_ + input_.size();
    ServerState& state = *std::exchange(state_, nullptr);
    asio::error_code ignored;
    socket_.close(ignored);
    silence_.cancel();
    delay_.cancel();
    const auto self = shared_from_this();
    state.connected.erase(number_);
    if (tell && !closing_) state.handlers.closed(number_);
  }

  std::uint64_t number_;
  Peer peer_;
  ClusterSocket socket_;
  asio::steady_timer silence_;
  asio::steady_timer delay_;
  ServerState* state_;
  const bool bounded_;
  bool reading_ = false;  // or it has read a line that waits
  std::string input_;
  std::deque<std::string> lines_;
  std::size_t buffered_ = 0;
  bool kept_ = false;
  bool closing_ = false;
};

class UnixClusterServer final : public ClusterServer {
 public:
  UnixClusterServer(bool everyone, Handlers handlers, const ServerBounds& bounds, WhoIs who_is)
      : everyone_(everyone), who_is_(std::move(who_is)), state_(bounds) {
    state_.handlers = std::move(handlers);
  }
  ~UnixClusterServer() override {
    listener_.reset();
    for (const auto& [number, one] : state_.connected) one->forget();
  }

  Status listen(asio::io_context& io, const std::string& path) {
    auto listener = transport::LocalListener::listen(io, path, everyone_ ? 0666 : 0600,
                                                     [this](ClusterSocket socket) { welcome(std::move(socket)); });
    if (!listener.ok()) return listener.error();
    listener_.emplace(std::move(*listener));
    return {};
  }

  void send(std::uint64_t connection, const std::string& line) override {
    if (const auto one = find(connection)) one->send(line);
  }
  void note_record(std::uint64_t connection) override {
    if (const auto one = find(connection)) one->note_record();
  }
  void send_last(std::uint64_t connection, const std::string& line) override {
    if (const auto one = find(connection)) one->send_last(line);
  }
  void keep(std::uint64_t connection) override {
    if (const auto one = find(connection)) one->keep();
  }
  void close(std::uint64_t connection) override {
    if (const auto one = find(connection)) one->finish();
  }
  std::size_t connections() const override { return state_.connected.size(); }

 private:
  std::shared_ptr<Connected> find(std::uint64_t connection) const {
    const auto found = state_.connected.find(connection);
    return found == state_.connected.end() ? nullptr : found->second;
  }

  void welcome(ClusterSocket socket) {
    const auto peer = who_is_(socket.native_handle());
    if (!peer || !may_connect(*peer)) return;
    if (!has_place_for(*peer)) return refuse(socket.native_handle());
    const std::uint64_t number = ++last_;
    const auto one = std::make_shared<Connected>(number, *peer, std::move(socket), state_);
    state_.connected[number] = one;
    one->begin();
  }

  bool may_connect(const Peer& peer) const { return everyone_ || transport::is_own(peer); }

  static void refuse(int socket) {
    send_now(
        socket,
        "{\"ok\":false,\"status\":69,\"text\":\"this cluster has no place for another connection of this user now; try "
        "again when one of them has ended\"}\n");
  }

  bool has_place_for(const Peer& peer) {
    const bool is_bounded = !transport::is_own(peer);
    const ServerBounds& bounds = state_.bounds;
    const std::size_t places = bounds.connections - (is_bounded ? bounds.kept_connections : 0);
    if (state_.connected.size() >= places) return false;
    forget_idle_users();
    const auto [user, is_new] = state_.users.try_emplace(peer.uid);
    if (is_new) {
      user->second.lines = bounds.lines_at_once;
      user->second.records = bounds.records_at_once;
    }
    user->second.bounded = is_bounded;
    return !is_bounded || user->second.connections < bounds.connections_of_user;
  }

  // A user who is not connected is forgotten when the buckets are full again.
  void forget_idle_users() {
    std::erase_if(state_.users, [&](const auto& entry) {
      UserAccount user = entry.second;
      user.fill(state_.bounds);
      return user.connections == 0 && user.is_full(state_.bounds);
    });
  }

  bool everyone_;
  WhoIs who_is_;
  ServerState state_;
  std::uint64_t last_ = 0;
  std::optional<transport::LocalListener> listener_;
};

}  // namespace

Result<std::unique_ptr<ClusterServer>> ClusterServer::listen(asio::io_context& io, const std::string& directory,
                                                             bool everyone, Handlers handlers, ServerBounds bounds,
                                                             WhoIs who_is) {
  auto server = std::make_unique<UnixClusterServer>(everyone, std::move(handlers), bounds, std::move(who_is));
  if (Status listens = server->listen(io, socket_of_cluster(directory)); !listens.ok()) return listens.error();
  return std::unique_ptr<ClusterServer>(std::move(server));
}

}  // namespace elastictrain::cluster
