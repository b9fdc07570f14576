// Purpose: `run --detach`: the run goes on in a process of its own session, and the command returns when training has
// begun, or with the run's status if it ends before.
//
// Until then the child writes to the command's own standard output and error, so that every mistake is seen; then these
// lead nowhere, and `logs` and `attach` show what is written. Thread: called before the process has threads. Errors: a
// process that cannot be started is one line on standard error.
#pragma once

#include <functional>
#include <string>

namespace elastictrain::cli {

class Detachment {
 public:
  // `notice`: the write end of a pipe to the waiting command.
  explicit Detachment(int notice) : notice_(notice) {}
  ~Detachment();
  Detachment(const Detachment&) = delete;
  Detachment& operator=(const Detachment&) = delete;

  // In the child, once training has begun; later calls do nothing.
  void begun(const std::string& run_name);

 private:
  int notice_;
};

// Calls `run` in a child, which ends with the status that it returns. Returns the exit status of the command.
int run_detached(const std::function<int(Detachment&)>& run);

}  // namespace elastictrain::cli
