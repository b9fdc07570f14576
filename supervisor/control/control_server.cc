#include "supervisor/control/control_server.h"

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/error_code.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "supervisor/control/control_protocol.h"
#include "supervisor/transport/local_listener.h"
#include "supervisor/transport/local_socket.h"

namespace elastictrain::control {
namespace {

using Local = asio::local::stream_protocol;

constexpr std::size_t kMaxClients = 64;
constexpr std::chrono::seconds kRequestDeadline{10};  // for a whole request line
constexpr std::chrono::seconds kAnswerDeadline{30};   // until the answer is read

class Client;

struct Shared {
  ControlServer::Handler handler;
  std::uint64_t turns = 0;  // that clients have had to say or to read something
  std::set<std::shared_ptr<Client>> clients;
  std::size_t unsent = 0;
  bool closed = false;
};

// One client: a request, its answer, the next request.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(Local::socket socket, std::shared_ptr<Shared> shared)
      : socket_(std::move(socket)), deadline_(socket_.get_executor()), shared_(std::move(shared)) {}

  void read_request() {
    if (shared_->closed) return drop();
    expire_after(kRequestDeadline);
    turn_ = ++shared_->turns;
    asio::async_read_until(
        socket_, asio::dynamic_buffer(input_, kMaxRequestBytes), '\n',
        [self = shared_from_this()](asio::error_code error, std::size_t length) { self->request_read(error, length); });
  }

  // Since when this client has been waited for, in order. Nothing: it waits for its answer.
  std::optional<std::uint64_t> awaited_since() const { return turn_; }

  void drop() {
    asio::error_code ignored;
    socket_.close(ignored);
    deadline_.cancel();
    shared_->clients.erase(shared_from_this());
  }

  bool writing() const { return !output_.empty(); }

 private:
  void request_read(asio::error_code error, std::size_t length) {
    if (error == asio::error::not_found) {
      closing_ = true;
      return answer(R"({"ok":false,"text":"the request is too long"})");
    }
    if (error || shared_->closed) return drop();
    std::string line = input_.substr(0, length - 1);
    input_.erase(0, length);
    expire_after(kAnswerDeadline);
    turn_.reset();
    const auto once = std::make_shared<bool>(false);
    shared_->handler(std::move(line), [weak = weak_from_this(), once](std::string json) {
      const auto self = weak.lock();
      if (self && !std::exchange(*once, true)) self->answer(std::move(json));
    });
  }

  void answer(std::string json) {
    if (!socket_.is_open()) return;
    output_ = std::move(json) + "\n";
    ++shared_->unsent;
    expire_after(kAnswerDeadline);
    turn_ = ++shared_->turns;
    asio::async_write(socket_, asio::buffer(output_), [self = shared_from_this()](asio::error_code error, std::size_t) {
      --self->shared_->unsent;
      self->output_.clear();
      if (error || self->closing_) return self->drop();
      self->read_request();
    });
  }

  void expire_after(std::chrono::seconds time) {
    deadline_.expires_after(time);
    deadline_.async_wait([weak = weak_from_this()](asio::error_code error) {
      const auto self = weak.lock();
      if (!error && self) self->drop();
    });
  }

  Local::socket socket_;
  asio::steady_timer deadline_;
  std::shared_ptr<Shared> shared_;
  std::string input_;
  std::string output_;
  std::optional<std::uint64_t> turn_;
  bool closing_ = false;
};

// Clients that say nothing, or do not read, keep nobody out.
void make_place(const Shared& shared) {
  std::shared_ptr<Client> oldest;
  for (const auto& client : shared.clients) {
    const auto since = client->awaited_since();
    if (since && (oldest == nullptr || *since < *oldest->awaited_since())) oldest = client;
  }
  if (oldest != nullptr) oldest->drop();
}

void welcome(Local::socket socket, const std::shared_ptr<Shared>& shared) {
  const auto peer = transport::peer_of(socket.native_handle());
  if (!peer || !transport::is_own(*peer)) return;
  if (shared->clients.size() >= kMaxClients) make_place(*shared);
  if (shared->clients.size() >= kMaxClients) return;
  const auto client = std::make_shared<Client>(std::move(socket), shared);
  shared->clients.insert(client);
  client->read_request();
}

class UnixControlServer final : public ControlServer {
 public:
  UnixControlServer(transport::LocalListener listener, std::shared_ptr<Shared> shared)
      : listener_(std::move(listener)), shared_(std::move(shared)) {}
  ~UnixControlServer() override {
    close();
    const auto clients = shared_->clients;
    for (const auto& client : clients) client->drop();
  }

  void close() override {
    if (std::exchange(shared_->closed, true)) return;
    listener_.close();
    const auto clients = shared_->clients;
    for (const auto& client : clients) {
      if (!client->writing()) client->drop();
    }
  }

  std::size_t unsent() const override { return shared_->unsent; }

 private:
  transport::LocalListener listener_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

Result<std::unique_ptr<ControlServer>> serve(asio::io_context& io, const std::string& run_directory,
                                             ControlServer::Handler handler) {
  auto shared = std::make_shared<Shared>();
  shared->handler = std::move(handler);
  auto listener =
      transport::LocalListener::listen(io, run_directory + "/" + kSocketName, 0600,
                                       [shared](Local::socket socket) { welcome(std::move(socket), shared); });
  if (!listener.ok()) return listener.error();
  return std::unique_ptr<ControlServer>(std::make_unique<UnixControlServer>(std::move(*listener), std::move(shared)));
}

}  // namespace elastictrain::control
