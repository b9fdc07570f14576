#include "supervisor/transport/socket_bio.h"

#include <sys/socket.h>

#include <cerrno>

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

}  // namespace elastictrain::transport
