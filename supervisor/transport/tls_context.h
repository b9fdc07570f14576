// Purpose: OpenSSL contexts that accept exactly one thing: TLS 1.3 with the run's pre-shared key and a fresh
// Diffie-Hellman exchange. No certificates, no tickets, no resumption, no early data.
// Ownership: reference-counted by OpenSSL; every TlsStream holds its own reference, the key is wiped with the last one.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain::transport {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeContext>;

enum class TlsRole { kClient, kServer };

Result<TlsContext> make_tls_context(TlsRole role, const Key& key);

}  // namespace elastictrain::transport
