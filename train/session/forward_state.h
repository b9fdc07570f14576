// Purpose: state that a program writes before the step's last all-reduce, in its forward pass: statistics and counters.
// What joiners, checkpoints and hashes get is a copy as of the last committed step, so a step that is discarded, and
// the stand-in pass of a joiner, leave nothing in the run's state.
//
// Ownership: the program owns its memory, this class the copies, whose addresses stay. Thread: the training thread.
// Failure: none.
#pragma once

#include <cstddef>
#include <list>
#include <span>
#include <vector>

namespace elastictrain::session {

class ForwardState {
 public:
  // Returns the copy, which is the state.
  std::span<std::byte> add(std::span<std::byte> memory);
  // The program's values are the state from here on. Only where the state may be written.
  void commit();
  // The program gets the state's values, which have just arrived.
  void adopt();
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::span<std::byte> memory;
    std::vector<std::byte> copy;
  };

  std::list<Entry> entries_;
};

}  // namespace elastictrain::session
