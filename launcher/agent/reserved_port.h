// Purpose: a TCP port of the loopback address that is free now and stays reserved for a program that binds it with
// SO_REUSEPORT, as NCCL's RAS service does: no other program gets it, and several runs of a host never collide.
//
// Ownership: the port is released with the object. Thread: any. Errors: take() reports why there is none.
#pragma once

#include <cstdint>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

class ReservedPort {
 public:
  static Result<ReservedPort> take();
  ReservedPort() = default;
  ReservedPort(ReservedPort&& other) noexcept;
  ReservedPort& operator=(ReservedPort&& other) noexcept;
  ~ReservedPort();

  std::uint16_t number() const { return number_; }  // 0: none
  // "127.0.0.1:40123"
  std::string address() const;

 private:
  int socket_ = -1;  // bound, never listening: connections are refused until the program listens
  std::uint16_t number_ = 0;
};

}  // namespace elastictrain::launcher
