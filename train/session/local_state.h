// Purpose: state that each rank keeps for itself: a generator, statistics of its own samples. It is sent to no joiner
// and compared with nothing. In the steps after which checkpoints are due, and at the end of the data, the values of
// all ranks are gathered. They are an early value from then on, so checkpoints have them, and a run that resumes gives
// each rank of its first generation its own.
//
// Ownership: the program owns its memory. Thread: the training thread; the reducer's while values are gathered.
// Failure: gather() fails as its communicator does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"
#include "train/session/early_values.h"

namespace elastictrain::session {

class LocalState {
 public:
  // False if the name is already used.
  bool add(std::string_view name, std::span<std::byte> memory);
  bool is_empty() const { return parts_.empty(); }
  // Equal on all workers of a run, whose values are gathered side by side. 0: there is no local state.
  std::uint64_t layout() const { return layout_; }
  const std::string& items() const { return items_; }  // for people, as StateBuffers::describe()

  // This rank's values as of now: what gather() shares, also when it is repeated.
  void take();
  Status gather(comm::Communicator& others);
  // What was gathered is in `early` from the open step's commit on, or from now on outside of a step. False: it does
  // not fit there, and what was gathered before stays.
  bool commit(EarlyValues& early, bool in_step);
  void discard() { everybodys_.clear(); }
  // Gives the program this rank's part; true also where there is no local state. False: the checkpoint has none for it,
  // or of another layout.
  bool adopt(const EarlyValues& early, std::uint32_t rank);

 private:
  std::set<std::string, std::less<>> names_;
  std::string items_;
  std::vector<std::span<std::byte>> parts_;
  std::uint64_t layout_ = 0;           // of names and sizes
  std::size_t bytes_ = 0;              // of all parts
  std::vector<std::byte> mine_;        // the layout, then the parts
  std::vector<std::byte> everybodys_;  // by rank; empty: nothing was gathered
};

}  // namespace elastictrain::session
