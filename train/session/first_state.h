// Purpose: state that the first rank alone keeps up to date: a best score, a history, an average of the weights. In
// some steps its values travel to all workers. What joiners, checkpoints, hashes and the next first rank get is a copy
// of what has travelled, as of the last committed step.
//
// Ownership: the program owns its memory, this class the copies and what travels; their addresses stay. Thread: the
// training thread; the reducer's while it travels. Failure: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "supervisor/protocol/ids.h"

namespace elastictrain::session {

class FirstState {
 public:
  // Who this worker is where values are about to travel. One without the state has received none yet: as first rank it
  // has nothing to send.
  enum class Place { kFirst, kOther, kWithoutState };

  // Returns the copy, which is the state.
  std::span<std::byte> add(std::span<std::byte> memory, std::uint64_t every_steps);
  // What is to travel in this step from the first rank to all, each with the mark of a sender that has the state. A
  // worker that becomes the first one before the step is committed sends the state that it began with.
  std::vector<std::span<std::byte>> take(Step step, Place place);

  // The program's values are the state from here on: its initial ones.
  void begin();
  // What has travelled in this step is the state from here on, and in the program's memory, except that of the first
  // rank that sent it.
  void commit(bool is_first);
  // The program gets the state's values, which have just arrived.
  void adopt();
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::span<std::byte> memory;
    std::uint64_t every_steps;
    std::vector<std::byte> copy;
    std::vector<std::byte> marked;  // the mark, then the values
    bool travels = false;           // in the open step
    bool is_own = false;            // what travels is this worker's, if it is still first then
  };

  std::list<Entry> entries_;
};

}  // namespace elastictrain::session
