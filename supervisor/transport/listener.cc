#include <asio/error.hpp>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/steady_timer.hpp>
#include <list>
#include <memory>
#include <utility>

#include "supervisor/transport/frame_connection.h"
#include "supervisor/transport/handshake.h"
#include "supervisor/transport/tls_connection.h"
#include "supervisor/transport/tls_stream.h"

namespace elastictrain::transport {
namespace {

using tcp = asio::ip::tcp;
using OnAccepted = std::function<void(std::shared_ptr<FrameConnection>)>;
using OnRejected = std::function<void(std::string address, std::string reason)>;

constexpr std::chrono::milliseconds kAcceptPause{50};  // after running out of descriptors
constexpr int kPortAttempts = 16;                      // for one free port on several addresses

class Acceptance : public std::enable_shared_from_this<Acceptance> {
 public:
  Acceptance(asio::io_context& io, const ListenOptions& options, TlsContext context, OnAccepted on_accepted,
             OnRejected on_rejected)
      : io_(io),
        options_(options),
        context_(std::move(context)),
        on_accepted_(std::move(on_accepted)),
        on_rejected_(std::move(on_rejected)) {}

  Status open() {
    if (options_.addresses.empty()) options_.addresses = {"127.0.0.1"};
    Status status;
    for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
      status = bind_all();
      if (status.ok() || options_.port != 0) break;
      acceptors_.clear();
    }
    return status;
  }

  void start() {
    for (const auto& acceptor : acceptors_) accept(acceptor);
  }

  std::uint16_t port() const { return port_; }

  void stop() {
    stopped_ = true;
    for (const auto& acceptor : acceptors_) {
      asio::error_code ignored;
      acceptor->close(ignored);
    }
    on_accepted_ = nullptr;
    on_rejected_ = nullptr;
    while (!pending_.empty()) drop_oldest("the listener stops");
  }

 private:
  struct Pending {
    std::string address;
    std::shared_ptr<Handshake> handshake;
  };
  using Acceptor = std::shared_ptr<tcp::acceptor>;

  Status bind_all() {
    port_ = options_.port;
    for (const std::string& text : options_.addresses) {
      asio::error_code error;
      const auto address = asio::ip::make_address(text, error);
      if (error) return Error{ErrorCode::kInvalid, "cannot listen on '" + text + "': not a numeric address"};
      auto acceptor = std::make_shared<tcp::acceptor>(io_);
      bind_one(*acceptor, tcp::endpoint(address, port_), error);
      if (error) {
        return Error{ErrorCode::kUnavailable, "cannot listen on " + format_endpoint(tcp::endpoint(address, port_)) +
                                                  ": " + error.message() + "; choose another address or port"};
      }
      port_ = acceptor->local_endpoint().port();
      acceptors_.push_back(std::move(acceptor));
    }
    return {};
  }

  static void bind_one(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, asio::error_code& error) {
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  }

  void accept(const Acceptor& acceptor) {
    acceptor->async_accept([self = shared_from_this(), acceptor](asio::error_code error, tcp::socket socket) {
      if (self->stopped_) return;
      if (error) return self->accept_failed(acceptor, error);
      self->begin(std::move(socket));
      self->accept(acceptor);
    });
  }

  void accept_failed(const Acceptor& acceptor, asio::error_code error) {
    if (error == asio::error::no_descriptors && !pending_.empty()) {
      drop_oldest("out of file descriptors");
    } else if (on_rejected_) {
      const char* remedy = error == asio::error::no_descriptors ? "; raise the limit (ulimit -n)" : "";
      on_rejected_("an unknown address", error.message() + remedy);
    }
    auto timer = std::make_shared<asio::steady_timer>(io_, kAcceptPause);
    timer->async_wait([self = shared_from_this(), acceptor, timer](asio::error_code) {
      if (!self->stopped_) self->accept(acceptor);
    });
  }

  void begin(tcp::socket socket) {
    asio::error_code error;
    const tcp::endpoint remote = socket.remote_endpoint(error);
    if (error) return;
    if (pending_.size() >= options_.max_pending_handshakes)
      drop_oldest("too many connections are waiting for their handshake");
    tune_socket(socket);
    const auto place = pending_.insert(pending_.end(), Pending{format_endpoint(remote), nullptr});
    place->handshake =
        std::make_shared<Handshake>(std::move(socket), context_.get(), TlsRole::kServer,
                                    [self = shared_from_this(), place](Result<std::unique_ptr<TlsStream>> stream) {
                                      self->shaken(place, std::move(stream));
                                    });
    place->handshake->start(options_.handshake_timeout);
  }

  void shaken(std::list<Pending>::iterator place, Result<std::unique_ptr<TlsStream>> stream) {
    const std::string address = place->address;
    pending_.erase(place);
    if (stream.ok() && on_accepted_) {
      on_accepted_(std::make_shared<TlsConnection>(std::move(stream).value(), options_.connection_limits));
    } else if (!stream.ok() && on_rejected_) {
      on_rejected_(address, stream.error().message);
    }
  }

  void drop_oldest(const std::string& why) {
    const std::shared_ptr<Handshake> oldest = pending_.front().handshake;
    oldest->fail(ErrorCode::kAborted, why);
  }

  asio::io_context& io_;
  ListenOptions options_;
  TlsContext context_;
  OnAccepted on_accepted_;
  OnRejected on_rejected_;
  std::vector<Acceptor> acceptors_;
  std::list<Pending> pending_;
  std::uint16_t port_ = 0;
  bool stopped_ = false;
};

class TlsListener final : public Listener {
 public:
  explicit TlsListener(std::shared_ptr<Acceptance> acceptance) : acceptance_(std::move(acceptance)) {}
  ~TlsListener() override { acceptance_->stop(); }
  std::uint16_t port() const override { return acceptance_->port(); }
  void stop() override { acceptance_->stop(); }

 private:
  std::shared_ptr<Acceptance> acceptance_;
};

}  // namespace

Result<std::unique_ptr<Listener>> listen(asio::io_context& io, const ListenOptions& options, const Key& key,
                                         std::function<void(std::shared_ptr<FrameConnection>)> on_accepted,
                                         std::function<void(std::string address, std::string reason)> on_rejected) {
  auto context = make_tls_context(TlsRole::kServer, key);
  if (!context.ok()) return context.error();
  auto acceptance = std::make_shared<Acceptance>(io, options, std::move(context).value(), std::move(on_accepted),
                                                 std::move(on_rejected));
  if (Status opened = acceptance->open(); !opened.ok()) return opened.error();
  acceptance->start();
  return std::unique_ptr<Listener>(std::make_unique<TlsListener>(std::move(acceptance)));
}

}  // namespace elastictrain::transport
