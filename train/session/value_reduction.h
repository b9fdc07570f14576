// Purpose: all-reduces of a program's own values, of any type and operation, over a communicator that sums floats and
// gathers bytes. Every rank gets the same bits: what the communicator does not sum is gathered, a part at a time, and
// folded in the order of the ranks.
//
// Ownership: none. Thread: that of the communicator. Units: elements. Failure: that of the communicator.
#pragma once

#include <cstddef>
#include <span>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"

namespace elastictrain::session {

std::size_t size_of(DataType type);

// What follows from the blocks of some ranks, in their order: into `data`, which is as long as one block.
void fold_gathered(std::span<std::byte> data, std::span<const std::byte> all, DataType type, Operation operation);

// In place; `data` is a whole number of elements and aligned for them.
Status reduce_values(comm::Communicator& communicator, std::span<std::byte> data, DataType type, Operation operation);

}  // namespace elastictrain::session
