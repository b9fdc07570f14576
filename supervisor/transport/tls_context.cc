#include "supervisor/transport/tls_context.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include <cstring>
#include <string_view>

namespace elastictrain::transport {
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

}  // namespace elastictrain::transport
