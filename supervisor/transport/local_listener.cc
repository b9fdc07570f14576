#include "supervisor/transport/local_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "supervisor/transport/local_socket.h"

namespace elastictrain::transport {
namespace {

using Local = asio::local::stream_protocol;

constexpr std::chrono::milliseconds kLocalAcceptPause{50};

}  // namespace

struct LocalListener::State {
  explicit State(asio::io_context& io) : acceptor(io), pause(io) {}
  Local::acceptor acceptor;
  asio::steady_timer pause;
  Accepted accepted;
};

Result<LocalListener> LocalListener::listen(asio::io_context& io, const std::string& path, mode_t mode,
                                            Accepted accepted) {
  const auto cannot = [&path](const std::string& why) {
    return Error{ErrorCode::kIo, "cannot listen on " + path + ": " + why};
  };
  const auto address = LocalAddress::of(path);
  if (!address.ok()) return address.error();
  auto state = std::make_shared<State>(io);
  asio::error_code error;
  state->acceptor.open(Local(), error);
  if (error) return cannot(error.message());
  if (::bind(state->acceptor.native_handle(), address->generic(), address->length()) != 0 ||
      ::chmod(path.c_str(), mode) != 0) {
    return cannot(std::strerror(errno));
  }
  state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return cannot(error.message());
  state->accepted = std::move(accepted);
  accept(state);
  return LocalListener(path, std::move(state));
}

void LocalListener::close() {
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  if (state == nullptr) return;
  asio::error_code ignored;
  state->acceptor.close(ignored);
  state->pause.cancel();
  ::unlink(path_.c_str());
}

void LocalListener::accept(const std::shared_ptr<State>& state) {
  state->acceptor.async_accept([state](asio::error_code error, Local::socket socket) {
    if (!state->acceptor.is_open()) return;
    if (!error) {
      state->accepted(std::move(socket));
      if (state->acceptor.is_open()) accept(state);
      return;
    }
    state->pause.expires_after(kLocalAcceptPause);
    state->pause.async_wait([state](asio::error_code) {
      if (state->acceptor.is_open()) accept(state);
    });
  });
}

}  // namespace elastictrain::transport
