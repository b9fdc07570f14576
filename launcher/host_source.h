// Purpose: provides the hosts of a run. A source is polled; hosts may appear and vanish between two answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

struct Host {
  std::string name;
  std::uint32_t slots = 1;
  std::string job = {};  // of the batch system, if the host belongs to another job than this process
  bool operator==(const Host&) const = default;
};

// Thread: the Asio loop. poll() answers on that loop, later; after a failed poll the previous hosts are kept (the
// caller reports the failure).
class HostSource {
 public:
  virtual ~HostSource() = default;
  virtual void poll(std::function<void(Result<std::vector<Host>>)> done) = 0;
  virtual std::uint64_t interval_ms() const = 0;  // 0: the list never changes
};

}  // namespace elastictrain::launcher
