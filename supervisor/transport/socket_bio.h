// Purpose: lets OpenSSL read and write a non-blocking socket without ever raising SIGPIPE (OpenSSL's own socket BIO
// uses write(2)), and remembers why the socket failed, which OpenSSL's error queue does not. Ownership: the caller
// keeps SocketState alive as long as the BIO; the descriptor stays the caller's.
#pragma once

#include <openssl/bio.h>

namespace elastictrain::transport {

struct SocketState {
  int descriptor = -1;
  bool end_of_stream = false;
  int error = 0;  // errno of the last failed call that was not a mere "try again"
};

BIO* make_socket_bio(SocketState* state);

}  // namespace elastictrain::transport
