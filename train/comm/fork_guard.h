// Purpose: a forked child of a worker gets nothing of it. Descriptors that are kept from children are closed in the
// child as soon as it exists, so that peers see the end of the worker even if a child outlives it.
//
// Ownership: of the process. Thread: any. Failure: a descriptor above kMaxGuarded stays open in the child.
#pragma once

namespace elastictrain::comm {

inline constexpr int kMaxGuarded = 1 << 16;

void keep_from_children(int fd);
void let_children_have(int fd);

}  // namespace elastictrain::comm
