// Purpose: state and small values of a program besides its replicated buffers: early values of joiners, attachments
// of a checkpoint, state that a forward pass writes, that the first rank alone keeps, and that each rank keeps for
// itself. Each part counts from the commit of its step on, so a discarded step leaves nothing in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"
#include "train/state/progress.h"

// The program's small values that a joiner has as soon as start() returns: they travel in the header that
// precedes the state. A new value is part of the state from the commit of its step on, as everything that an update
// changes.
//
// Ownership: the program's; copies. Thread: the training thread. Failure: share() throws SessionError beyond the limit.

namespace elastictrain::session {

class EarlyValues {
 public:
  static constexpr std::size_t kMaxBytes = 4U << 20;  // of all names and values together

  bool has_room(std::string_view name, std::size_t bytes) const {
    return bytes_besides(name) + name.size() + bytes <= kMaxBytes;
  }
  // In a step: from its commit on. Otherwise now.
  void share(std::string_view name, std::span<const std::byte> bytes, bool in_step);
  // Null: there is none of this name.
  const std::vector<std::byte>* find(std::string_view name) const;

  void commit();
  void discard() { pending_.clear(); }
  void put_into(state::TransferHeader& header) const { header.early = values_; }
  void adopt(const state::TransferHeader& header) { values_ = header.early; }
  const std::vector<state::EarlyValue>& values() const { return values_; }
  // Of a checkpoint: values of the same names are replaced.
  void resume(const std::vector<state::EarlyValue>& saved);

 private:
  using Values = std::vector<state::EarlyValue>;  // in the order of their first appearance, equal on all ranks

  static void set(Values& values, std::string_view name, std::span<const std::byte> bytes);
  std::size_t bytes_besides(std::string_view name) const;

  Values values_;
  Values pending_;  // of the open step
};

// Values that the program adds to a checkpoint, by name: they belong to one step, and only a checkpoint of
// that very step has them. A run that resumes gives them back.
// Ownership: the program's; copies. Thread: the training thread. Failure: attach() throws SessionError beyond the
// limit.

class Attachments {
 public:
  static constexpr std::size_t kMaxBytes = 8U << 20;  // of all names and values together

  using Values = std::vector<state::EarlyValue>;

  // Of the open step. Replaces the one of that name.
  void attach(std::string_view name, std::span<const std::byte> bytes);
  void commit(Step step);
  void discard() { pending_.clear(); }

  // Of a checkpoint of that step; none if the step had none.
  const Values& of(Step step) const;
  // The program has attached something to an earlier step or this one.
  bool is_used() const { return is_used_; }

  // Of the checkpoint with which this run began.
  void resume(Values values) { resumed_ = std::move(values); }
  const Values& resumed() const { return resumed_; }
  // Null: the checkpoint had none of this name, or there was none.
  const std::vector<std::byte>* find(std::string_view name) const;

 private:
  Values pending_;  // of the open step
  Values values_;
  Step step_ = 0;  // of `values_`
  Values resumed_;
  bool is_used_ = false;
};

// State that a program writes before the step's last all-reduce, in its forward pass: statistics and counters.
// What joiners, checkpoints and hashes get is a copy as of the last committed step, so a step that is discarded, and
// the stand-in pass of a joiner, leave nothing in the run's state.
//
// Ownership: the program owns its memory, this class the copies, whose addresses stay. Thread: the training thread.
// Failure: none.

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

// State that the first rank alone keeps up to date: a best score, a history, an average of the weights. In
// some steps its values travel to all workers. What joiners, checkpoints, hashes and the next first rank get is a copy
// of what has travelled, as of the last committed step.
//
// Ownership: the program owns its memory, this class the copies and what travels; their addresses stay. Thread: the
// training thread; the reducer's while it travels. Failure: none.

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

// State that each rank keeps for itself: a generator, statistics of its own samples. It is sent to no joiner
// and compared with nothing. In the steps after which checkpoints are due, and at the end of the data, the values of
// all ranks are gathered. They are an early value from then on, so checkpoints have them, and a run that resumes gives
// each rank of its first generation its own.
//
// Ownership: the program owns its memory. Thread: the training thread; the reducer's while values are gathered.
// Failure: gather() fails as its communicator does.

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
