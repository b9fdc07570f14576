#include "supervisor/transport/tls_stream.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace elastictrain::transport {
namespace {

std::string describe_tls_failure(unsigned long code) {
  switch (ERR_GET_REASON(code)) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
      return "it has a different key than this run";
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return "the peer does not accept the key";
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return "it did not prove the run's key";
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_UNEXPECTED_MESSAGE:
      return "it does not speak TLS 1.3";
    default:
      break;
  }
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "TLS failed" : std::string("TLS failed: ") + reason;
}

int clamp_length(std::size_t length) {
  return static_cast<int>(std::min<std::size_t>(length, std::numeric_limits<int>::max()));
}

}  // namespace

TlsStream::TlsStream(asio::ip::tcp::socket socket, SSL_CTX* context, TlsRole role)
    : socket_(std::move(socket)), ssl_(SSL_new(context)) {
  if (!ssl_) panic("out of memory for a TLS session");
  state_.descriptor = socket_.native_handle();
  BIO* bio = make_socket_bio(&state_);
  SSL_set_bio(ssl_.get(), bio, bio);
  if (role == TlsRole::kClient) {
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
}

IoOutcome TlsStream::handshake() {
  ERR_clear_error();
  IoOutcome outcome = outcome_of(SSL_do_handshake(ssl_.get()));
  // Unless the key is in use, the peer has proved nothing.
  if (outcome.state == IoState::kDone && SSL_session_reused(ssl_.get()) != 1) {
    return {IoState::kFailed, 0, "it did not prove the run's key"};
  }
  return outcome;
}

IoOutcome TlsStream::read(char* data, std::size_t capacity) {
  ERR_clear_error();
  return outcome_of(SSL_read(ssl_.get(), data, clamp_length(capacity)));
}

IoOutcome TlsStream::write(const char* data, std::size_t length) {
  ERR_clear_error();
  return outcome_of(SSL_write(ssl_.get(), data, clamp_length(length)));
}

bool TlsStream::holds_unread() const {
  return SSL_has_pending(ssl_.get()) == 1;
}

IoOutcome TlsStream::outcome_of(int result) {
  if (result > 0) return {IoState::kDone, static_cast<std::size_t>(result), {}};
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {IoState::kWantRead, 0, {}};
    case SSL_ERROR_WANT_WRITE:
      return {IoState::kWantWrite, 0, {}};
    case SSL_ERROR_ZERO_RETURN:
      return {IoState::kClosed, 0, {}};
    default:
      break;
  }
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  if (state_.end_of_stream) return {IoState::kClosed, 0, {}};
  if (state_.error != 0) return {IoState::kFailed, 0, std::strerror(state_.error)};
  return {IoState::kFailed, 0, describe_tls_failure(code)};
}

}  // namespace elastictrain::transport
