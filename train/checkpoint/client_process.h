// Purpose: one call of a client program: bytes to its standard input or from its standard output, and how it ended.
//
// The process has a group of its own, so that an interrupt of the terminal does not end a transfer. The destructor ends
// it. Thread: any, one at a time. Errors: kTimeout; kIo: it cannot be run, or failed, with what it said last.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/checkpoint/files.h"

namespace elastictrain::checkpoint {

class ClientProcess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Direction : std::uint8_t { kToClient, kFromClient };

  // `name`: for people.
  static Result<ClientProcess> start(const std::string& name, const std::vector<std::string>& words,
                                     Direction direction, std::chrono::milliseconds timeout);
  ClientProcess(ClientProcess&& other) noexcept;
  ClientProcess& operator=(ClientProcess&&) = delete;
  ~ClientProcess();

  Status write(std::span<const std::byte> bytes);
  // The number of bytes; 0: there are no more.
  Result<std::size_t> read(std::span<std::byte> bytes);
  // No more bytes go or come. Waits for its end; good with status 0.
  Status finish();

 private:
  ClientProcess() = default;
  Status await(short events);
  Error ended_early();
  Error failure(const std::string& what) const;
  std::string last_words() const;
  void kill();
  int reap(bool waits);

  std::string name_;
  pid_t pid_ = -1;
  File stream_;
  File messages_;  // what it writes to standard error
  Clock::time_point deadline_;
  std::chrono::milliseconds timeout_{};
};

}  // namespace elastictrain::checkpoint
