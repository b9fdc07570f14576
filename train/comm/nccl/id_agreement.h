// Purpose: gives all ranks of a generation the same unique ids, and one decision on when and from which parent NCCL is
// built. It uses the host plane, whose connections have verified the generation's token, because anyone who knows an id
// can join. Thread: the builder's. Failure: the reason why rank 0 has no id, on every rank; or the host plane's error.
#pragma once

#include <vector>

#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_communicator.h"

namespace elastictrain::comm {

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
