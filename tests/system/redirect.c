/* Leads the TCP connections of a process through a proxy on 127.0.0.1, as somebody in the path between hosts does.
 * Loaded into workers by LD_PRELOAD. REDIRECT_PORT: of the proxy. REDIRECT_DIR: a file named after the port from which
 * a connection comes tells the proxy to which address and port it was meant. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static int tell_proxy(int fd, const struct sockaddr_in* meant) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof own;
  if (bind(fd, (struct sockaddr*)&own, sizeof own) != 0) return -1;
  if (getsockname(fd, (struct sockaddr*)&own, &size) != 0) return -1;
  char path[512];
  snprintf(path, sizeof path, "%s/%d", getenv("REDIRECT_DIR"), ntohs(own.sin_port));
  FILE* file = fopen(path, "w");
  if (file == NULL) return -1;
  fprintf(file, "%s %d\n", inet_ntoa(meant->sin_addr), ntohs(meant->sin_port));
  return fclose(file);
}

__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr* address, socklen_t size) {
  int (*real)(int, const struct sockaddr*, socklen_t) = dlsym(RTLD_NEXT, "connect");
  const char* port = getenv("REDIRECT_PORT");
  if (port == NULL || address->sa_family != AF_INET) return real(fd, address, size);
  if (tell_proxy(fd, (const struct sockaddr_in*)address) != 0) return -1;
  struct sockaddr_in proxy = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  proxy.sin_port = htons((in_port_t)atoi(port));
  return real(fd, (struct sockaddr*)&proxy, sizeof proxy);
}
