// Purpose: one line that a worker wrote, for the run's output. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "supervisor/protocol/ids.h"

namespace elastictrain {

// A worker's output line with what the reader needs to label it.
struct OutputLine {
  WorkerId worker;
  std::string host;
  std::int64_t rank = -1;  // -1: in no generation yet
  std::uint32_t local_rank = 0;
  Generation generation = 0;
  std::int64_t pid = 0;
  bool is_stderr = false;
  bool is_unfinished = false;  // a state of a progress bar; its line follows
  std::string text;
};

}  // namespace elastictrain
