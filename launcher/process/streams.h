// Purpose: the three standard streams of a child before it exists, and the descriptors that they consist of.
//
// Ownership: a Fd closes its descriptor. Thread: any. Errors: what could not be opened, with advice where descriptors
// are used up.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

struct ProcessSpec;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(-1); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd);

 private:
  int fd_ = -1;
};

struct StreamEnds {
  Fd child;
  Fd parent;
};

struct Streams {
  std::array<Fd, 3> child;
  std::array<Fd, 3> parent;  // of those that are pipes
};

Result<StreamEnds> open_pipe(bool parent_writes);

// As the spec asks for; all descriptors are closed on exec.
Result<Streams> open_streams(const ProcessSpec& spec);

Error system_error(const std::string& what, int error);

}  // namespace elastictrain::launcher
