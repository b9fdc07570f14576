// Purpose: the kernel's measurement of the round trip to a peer, without a message of our own. Thread: any.
#pragma once

namespace elastictrain::comm {

// Minimum round trip on a connected TCP socket within the kernel's window (minutes), in microseconds. 0: not known, or
// not a TCP socket.
double round_trip_us(int fd);

}  // namespace elastictrain::comm
