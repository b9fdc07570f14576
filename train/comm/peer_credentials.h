// Purpose: the process at the other end of a Unix socket, as reported by the kernel.
#pragma once

#include <sys/types.h>

namespace elastictrain::comm {

bool peer_has_own_uid(int unix_fd);
// 0 if unknown.
pid_t peer_pid(int unix_fd);

}  // namespace elastictrain::comm
