// Purpose: who is at the other end of a Unix socket, as the kernel says.
#pragma once

#include <sys/types.h>

namespace elastictrain::comm {

bool peer_has_own_uid(int unix_fd);
// 0 if unknown.
pid_t peer_pid(int unix_fd);

}  // namespace elastictrain::comm
