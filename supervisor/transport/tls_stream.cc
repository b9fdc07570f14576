#include "supervisor/transport/tls_stream.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/sslerr.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

namespace elastictrain::transport {
namespace {

SocketState* state_of(BIO* bio) {
  return static_cast<SocketState*>(BIO_get_data(bio));
}

bool try_again(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int write_socket(BIO* bio, const char* data, int length) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(state_of(bio)->descriptor, data, static_cast<std::size_t>(length), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<int>(sent);
  if (try_again(errno)) {
    BIO_set_retry_write(bio);
  } else {
    state_of(bio)->error = errno;
  }
  return -1;
}

int read_socket(BIO* bio, char* data, int length) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = ::recv(state_of(bio)->descriptor, data, static_cast<std::size_t>(length), 0);
  if (received > 0) return static_cast<int>(received);
  if (received == 0) {
    state_of(bio)->end_of_stream = true;
    return 0;
  }
  if (try_again(errno)) {
    BIO_set_retry_read(bio);
  } else {
    state_of(bio)->error = errno;
  }
  return -1;
}

long control_socket(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "quiet socket");
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  return method;
}

}  // namespace

BIO* make_socket_bio(SocketState* state) {
  BIO* bio = BIO_new(socket_method());
  BIO_set_data(bio, state);
  BIO_set_init(bio, 1);
  return bio;
}

namespace {

constexpr std::string_view kIdentity = "elastictrain";
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

void free_key(void*, void* key, CRYPTO_EX_DATA*, int, long, void*) {
  if (key == nullptr) return;
  OPENSSL_cleanse(key, sizeof(Key));
  delete static_cast<Key*>(key);
}

int key_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_key);
  return index;
}

SSL_SESSION* make_session(SSL* ssl) {
  const auto* key = static_cast<const Key*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), key_index()));
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  SSL_SESSION* session = SSL_SESSION_new();
  if (key == nullptr || cipher == nullptr || session == nullptr ||
      SSL_SESSION_set1_master_key(session, key->data(), key->size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 || SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* identity_length,
              SSL_SESSION** session) {
  *session = make_session(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *identity_length = kIdentity.size();
  return *session == nullptr ? 0 : 1;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_length, SSL_SESSION** session) {
  const std::string_view offered(reinterpret_cast<const char*>(identity), identity_length);
  *session = offered == kIdentity ? make_session(ssl) : nullptr;
  return 1;
}

bool restrict_protocol(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 && SSL_CTX_set_num_tickets(context, 0) == 1 &&
         SSL_CTX_set_max_early_data(context, 0) == 1;
}

}  // namespace

Result<TlsContext> make_tls_context(TlsRole role, const Key& key) {
  TlsContext context(SSL_CTX_new(role == TlsRole::kClient ? TLS_client_method() : TLS_server_method()));
  if (!context || !restrict_protocol(context.get())) {
    ERR_clear_error();
    return Error{ErrorCode::kInternal,
                 "OpenSSL offers no TLS 1.3 with TLS_AES_128_GCM_SHA256; check its configuration"};
  }
  auto held = std::make_unique<Key>(key);
  if (SSL_CTX_set_ex_data(context.get(), key_index(), held.get()) != 1) {
    return Error{ErrorCode::kInternal, "OpenSSL could not hold the key"};
  }
  held.release();
  // A client must not accept a server that presents a certificate instead of the key; nothing is trusted, so it fails.
  SSL_CTX_set_verify(context.get(), role == TlsRole::kClient ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_psk_use_session_callback(context.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(context.get(), find_key);
  return context;
}

Key make_key() {
  Key key{};
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1)
    panic("the operating system returned no random numbers");
  return key;
}

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
