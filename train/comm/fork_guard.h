// Purpose: a forked child of a worker gets nothing of it. Descriptors that are kept from children are closed in the
// child as soon as it exists, so that peers see the end of the worker even if a child outlives it; and an object that a
// child has inherited can tell that it has.
//
// Ownership: of the process. Thread: any. Failure: a descriptor above kMaxGuarded stays open in the child.
#pragma once

namespace elastictrain::comm {

inline constexpr int kMaxGuarded = 1 << 16;

void keep_from_children(int fd);
void let_children_have(int fd);

// How many forks lie between the first process that used this library and this one: differs between an object's creator
// and a child that inherited the object.
unsigned fork_depth();

}  // namespace elastictrain::comm
