// Purpose: agreement of a generation's ranks on the build of NCCL over the host plane: its unique ids, its result in
// rounds, and its end if it is cancelled or takes too long.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_communicator.h"
#include "train/comm/socket.h"

// Lets the ranks of a generation learn the result of a build together: in rounds over the host plane, because
// a rank whose build hangs must be notified of a failure on another rank. Thread: the builder's. Failure: the host
// plane's error.

namespace elastictrain::comm {

enum class BuildState : std::uint8_t { kBuilding, kBuilt, kStalled, kFailed };

// Calls `look` once a round, which may take as long as the round, until the communicator is built on all ranks, or has
// failed or stalled on one of them.
Result<BuildState> build_in_rounds(Communicator& host_plane, std::chrono::milliseconds round,
                                   const std::function<BuildState()>& look);

// Ends the host plane's calls of a build that is cancelled or takes too long, because those calls take no
// token. Ownership: the build's; it has a thread of its own while it exists. Thread: one. Failure: none.

class BuildGuard {
 public:
  BuildGuard(Communicator& host_plane, const CancelToken& cancel, Deadline deadline);
  ~BuildGuard();
  BuildGuard(const BuildGuard&) = delete;
  BuildGuard& operator=(const BuildGuard&) = delete;

  // The deadline passed.
  bool fired() const { return fired_; }

 private:
  void watch(const CancelToken& cancel);

  Communicator& host_plane_;
  std::mutex mutex_;
  const Deadline deadline_;
  std::atomic<bool> fired_{false};
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// Gives all ranks of a generation the same unique ids, and one decision on when and from which parent NCCL is
// built. It uses the host plane, whose connections have verified the generation's token, because anyone who knows an id
// can join. Thread: the builder's. Failure: the reason why rank 0 has no id, on every rank; or the host plane's error.

// The parent that this rank could shrink the generation from.
struct Parent {
  NcclComm::Parenthood parenthood = NcclComm::Parenthood::kNone;
  Generation generation = 0;
};

struct AgreedIds {
  std::vector<NcclUniqueId> ids;
  NcclBuild build = NcclBuild::kBackground;  // kAtSwap if any rank requests it
  // kNone unless all ranks can shrink from the same generation and in the same way.
  NcclComm::Parenthood parenthood = NcclComm::Parenthood::kNone;
  UniqueIdHelper helper;  // rank 0's; keep it until all are built
};

Result<AgreedIds> agree_on_ids(Communicator& host_plane, const NcclOptions& options, const Parent& parent,
                               const CancelToken& cancel);

// One root serves its ranks one after the other, so a large world gets several. 1 if the library takes only one.
std::size_t ids_for(std::uint32_t ranks, std::uint32_t several_from, bool takes_several);

}  // namespace elastictrain::comm
