// Purpose: a TCP port of the loopback address that is free now and stays so for a program that binds it with
// SO_REUSEPORT, as NCCL's RAS service does: nobody else gets it, and several runs of a host never meet.
//
// Ownership: the port is given back with the object. Thread: any. Failure: take() says why there is none.
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
  int socket_ = -1;  // bound, never listening: who connects is refused until the program listens
  std::uint16_t number_ = 0;
};

}  // namespace elastictrain::launcher
