// Purpose: makes the unique ids of one communicator in a short-lived process.
//
// ncclGetUniqueId leaves a thread and a listening socket in the process that calls it, and nothing ends them if the
// communicator is never built. They end with the helper, which must run until the communicator is built on all ranks.
// Ownership: the object owns the process; destroying it kills and reaps it. Thread: one at a time. Failure:
// kUnavailable with the helper's message, kTimeout, kAborted.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "train/comm/nccl/nccl_library.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {

class UniqueIdHelper {
 public:
  // `command`: the helper and its arguments; the number of ids is appended.
  static Result<UniqueIdHelper> start(std::vector<std::string> command, std::size_t count, const CancelToken& cancel,
                                      Deadline deadline);
  UniqueIdHelper() = default;
  UniqueIdHelper(UniqueIdHelper&& other) noexcept;
  UniqueIdHelper& operator=(UniqueIdHelper&& other) noexcept;
  ~UniqueIdHelper();

  const std::vector<NcclUniqueId>& ids() const { return ids_; }
  pid_t pid() const { return pid_; }

 private:
  Status spawn(const std::vector<std::string>& command);
  Status read_ids(std::size_t count, const CancelToken& cancel, Deadline deadline);
  Status take_line(const std::string& line);

  pid_t pid_ = -1;
  Socket input_;  // our end; the helper ends when it closes
  Socket output_;
  std::vector<NcclUniqueId> ids_;
};

// `elastictrain nccl-id`: starts the same binary again. Empty if the agent has not set ELASTICTRAIN_BINARY.
std::vector<std::string> unique_id_command();

// The body of the helper: prints the ids and waits until its standard input closes. Returns its exit status.
int run_unique_id_helper(std::size_t count);

}  // namespace elastictrain::comm
