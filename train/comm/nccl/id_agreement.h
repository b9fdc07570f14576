// Purpose: gives all ranks of a generation the same unique ids, and one answer to when and from what NCCL is built,
// over the host plane: its connections have shown the generation's token, and who knows an id can join. Thread: the
// builder's. Failure: why rank 0 has no id, on every rank; or the host plane's error.
#pragma once

#include <vector>

#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_communicator.h"

namespace elastictrain::comm {

// What this rank could shrink the generation from.
struct Parent {
  NcclComm::Parenthood parenthood = NcclComm::Parenthood::kNone;
  Generation generation = 0;
};

struct AgreedIds {
  std::vector<NcclUniqueId> ids;
  NcclBuild build = NcclBuild::kBackground;  // kAtSwap if any rank wants that
  // kNone unless all ranks could do it from the same generation and in the same way.
  NcclComm::Parenthood parenthood = NcclComm::Parenthood::kNone;
  UniqueIdHelper helper;  // rank 0's; keep it until all are built
};

Result<AgreedIds> agree_on_ids(Communicator& host_plane, const NcclOptions& options, const Parent& parent,
                               const CancelToken& cancel);

// One root serves the ranks one after the other, so a large world gets several. 1 where the library takes only one.
std::size_t ids_for(std::uint32_t ranks, std::uint32_t several_from, bool takes_several);

}  // namespace elastictrain::comm
