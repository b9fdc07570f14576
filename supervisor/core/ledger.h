// Purpose: the account of a run in audit mode. Members report which positions of the epoch's permutation they used in
// each committed step, and now and then a hash of their state; the ledger finds samples that counted twice or never,
// and members whose states differ.
//
// Ownership and thread: those of the state machine that holds it. Memory is bounded: positions are kept as intervals
// (one for each epoch once all have reported), hashes for the last kHashWindow steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/message.h"

namespace elastictrain::core {

// Disjoint half-open intervals of numbers.
class IntervalSet {
 public:
  // Adds [first, first + count) and returns how many of these numbers were there before.
  std::uint64_t add(std::uint64_t first, std::uint64_t count);
  std::uint64_t size() const { return size_; }
  std::uint64_t end() const;                       // one past the largest number, 0 when empty
  std::optional<std::uint64_t> first_gap() const;  // the smallest number below end() that is not there
  std::size_t pieces() const { return pieces_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> pieces_;  // first -> one past the last
  std::uint64_t size_ = 0;
};

class Ledger {
 public:
  static constexpr std::uint64_t kHashWindow = 4096;

  struct Summary {
    std::uint64_t steps = 0;  // the latest step that anybody reported
    std::uint64_t epochs = 0;
    std::uint64_t samples = 0;
    std::uint64_t missing = 0;
    std::uint64_t repeated = 0;
    std::uint64_t hashes_compared = 0;
    std::uint64_t unequal_hashes = 0;
  };

  // Samples of one epoch as the workers reported them at their start; 0: not known, then only gaps below the largest
  // position are found.
  void set_sample_count(std::uint64_t count) { sample_count_ = count; }

  // Returns a sentence for each violation found.
  std::vector<std::string> record(WorkerId worker, const protocol::WorkerAudit& audit);

  bool used() const { return steps_ > 0; }
  Summary summary() const;

 private:
  struct Hash {
    WorkerId first;
    std::uint64_t value = 0;
  };

  void record_positions(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations);
  void record_hash(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations);
  std::uint64_t missing_in(std::uint64_t epoch, const IntervalSet& positions) const;

  std::uint64_t sample_count_ = 0;
  Step steps_ = 0;
  std::map<std::uint64_t, IntervalSet> epochs_;
  std::map<Step, Hash> hashes_;
  std::uint64_t repeated_ = 0;
  std::uint64_t hashes_compared_ = 0;
  std::uint64_t unequal_hashes_ = 0;
};

}  // namespace elastictrain::core
