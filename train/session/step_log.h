// Purpose: the step log of the benchmarks: one JSON line per event, time as seconds of CLOCK_MONOTONIC, so that logs of
// all workers of a machine can be merged.
// Ownership: the session. Thread: training thread. Failure: a log that cannot be written is reported once by open().
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::session {

class StepLog {
 public:
  StepLog() = default;  // a log that writes nothing
  static Result<StepLog> open(const std::string& directory, const std::string& node);

  void event(const char* name);
  void event(const char* name, std::uint32_t rank, std::uint32_t world_size, std::uint64_t generation);
  void step(std::uint64_t step, std::uint32_t rank, std::uint32_t world_size, std::uint64_t generation);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void line(const char* name, const std::string& fields);

  std::unique_ptr<std::FILE, Closer> file_;
  std::string tail_;
};

}  // namespace elastictrain::session
