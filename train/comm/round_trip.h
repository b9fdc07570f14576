// Purpose: what the kernel knows of the way to a peer, without a message of our own. Thread: any.
#pragma once

namespace elastictrain::comm {

// Least round trip on a connected TCP socket within the kernel's window (minutes), in microseconds; 0: not known, or no
// TCP socket.
double round_trip_us(int fd);

}  // namespace elastictrain::comm
