// Purpose: the account of a run in audit mode. Members report which positions of the epoch's permutation they used in
// each committed step, and at intervals a hash of their state; the ledger finds samples that counted twice or never,
// and members whose states differ. What a fence invalidated does not count, whether it was reported before the fence or
// arrives later.
//
// A hash counts once its worker has committed a later step, or has ended with the run: a worker takes it where its
// program goes on from a step, and only if the ranks then agree on what comes next did they stand at the same place.
//
// Ownership and thread: those of the state machine that holds it. Memory is bounded: positions are kept as intervals
// (one for each epoch once all members have reported), what a worker used as progressions (one for each epoch and
// generation of a worker while its batches are even; the oldest are dropped beyond kMaxProgressions), hashes for the
// last kHashWindow steps.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::core {

// Disjoint half-open intervals of numbers.
class IntervalSet {
 public:
  // Adds [first, first + count) and returns how many of these numbers were already there.
  std::uint64_t add(std::uint64_t first, std::uint64_t count);
  void remove(std::uint64_t first, std::uint64_t count);
  std::uint64_t size() const { return size_; }
  std::uint64_t end() const;                       // one past the largest number, 0 when empty
  std::optional<std::uint64_t> first_gap() const;  // the smallest missing number below end()
  std::size_t pieces() const { return pieces_.size(); }
  // (first, count) of the missing numbers from `first` to `first + count`.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps(std::uint64_t first, std::uint64_t count) const;

 private:
  std::map<std::uint64_t, std::uint64_t> pieces_;  // first -> one past the last
  std::uint64_t size_ = 0;
};

class Ledger {
 public:
  static constexpr std::uint64_t kHashWindow = 4096;
  static constexpr std::size_t kMaxProgressions = 1'000'000;
  static constexpr std::uint64_t kMaxCovered = 10'000;  // epochs that a checkpoint may claim to hold
  static constexpr std::size_t kMaxClaims = 1000;

  struct Summary {
    std::uint64_t steps = 0;  // the latest step that any worker reported
    std::uint64_t epochs = 0;
    std::uint64_t samples = 0;
    std::uint64_t missing = 0;
    std::uint64_t unaccounted = 0;  // missing, but workers may have used them and not told it: see end()
    std::uint64_t open = 0;         // of the last epoch, after the last position that any worker used
    std::uint64_t repeated = 0;
    std::uint64_t hashes_compared = 0;
    std::uint64_t unequal_hashes = 0;
  };

  // Samples of one epoch as the workers reported them at their start; 0: not known, then only gaps below the largest
  // position are found.
  void set_sample_count(std::uint64_t count);

  // Returns a sentence for each violation found. A batch with the number of an earlier one of this sender is a
  // repetition after a broken connection and is skipped; so are further reports about the same worker's steps.
  std::vector<std::string> record(WorkerId sender, const protocol::WorkerAudit& audit);

  // A recovery, or a start from a checkpoint: invalidates what generations before `fence.generation` used in steps from
  // `fence.first_step` on. Planned changes need none. The same fence again changes nothing. Returns a sentence for
  // anything that cannot be invalidated because it is too old.
  std::vector<std::string> fence(const protocol::Fence& fence);

  // Workers that average in pairs return what they have not used of each round, to be used before the epoch is over.
  // Where the run ends within an epoch, its unused samples are open, not missing.
  void returns_samples(bool returns) { returns_samples_ = returns; }

  // The run ends. `cut_off` may have made steps of which they have told nothing: what is missing in epochs that reach
  // beyond the last step of which all have told is not accounted for, and their last hashes do not count. Returns a
  // sentence for each violation found.
  std::vector<std::string> end(const std::vector<WorkerId>& cut_off);

  bool used() const { return used_; }
  Summary summary() const;

 private:
  struct Hash {
    WorkerId first;
    Generation generation = 0;
    std::uint64_t value = 0;
  };
  // What one worker used in `steps` successive steps of one generation and epoch: `count` positions in each step, their
  // first positions `stride` apart.
  struct Progression {
    Generation generation = 0;
    std::uint64_t epoch = 0;
    Step first_step = 0;
    std::uint64_t steps = 0;
    std::uint64_t first_position = 0;
    std::uint64_t stride = 0;
    std::uint64_t count = 0;
  };
  struct Epoch {
    IntervalSet positions;
    std::uint64_t repeated = 0;
    Step end_step = 0;  // the step that used its largest position so far
  };

  bool is_void(Generation generation, Step step) const;
  bool is_last_before_fence(const protocol::AuditStep& step) const;
  void count_in_other_units(Generation from, std::uint64_t sample_count);
  std::map<WorkerId, std::deque<Progression>> take_used_from(Generation from);
  std::vector<std::string> claim(const protocol::AuditStep& step);
  void cover(const protocol::AuditStep& step);
  void fill(const protocol::AuditStep& piece);
  void uncover(const protocol::AuditStep& used, IntervalSet& positions);
  bool is_known(WorkerId worker, const protocol::AuditStep& step) const;
  void record_positions(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations);
  void record_hash(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations);
  void compare_hash(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations);
  void remember(WorkerId worker, const protocol::AuditStep& step);
  void cut(Progression& progression, const protocol::Fence& fence);
  void count_anew(std::uint64_t number, Epoch& epoch) const;
  std::uint64_t missing_in(std::uint64_t number, const Epoch& epoch) const;
  Step told_by(WorkerId worker) const;

  std::uint64_t sample_count_ = 0;
  Generation units_from_ = 0;  // what generations before used is in other units
  std::uint64_t repeated_before_ = 0;
  std::uint64_t missing_before_ = 0;
  std::deque<protocol::AuditStep> claims_;           // what checkpoints hold, the newest kMaxClaims
  std::vector<protocol::AuditStep> covers_;          // of that, what no worker has reported
  std::vector<protocol::AuditStep> waiting_covers_;  // arrived before the sample count was known
  bool used_ = false;
  bool returns_samples_ = false;
  Step told_by_all_ = std::numeric_limits<Step>::max();  // of end()
  Step steps_ = 0;
  Generation newest_ = 0;
  std::vector<protocol::Fence> fences_;  // generations and first steps ascend; covered fences are omitted
  std::map<std::uint64_t, Epoch> epochs_;
  std::map<WorkerId, std::deque<Progression>> used_by_;
  std::size_t progressions_ = 0;
  std::set<WorkerId> spoken_for_;  // other workers have reported what they used
  std::map<WorkerId, IntervalSet> batches_;
  Step kept_from_ = 0;  // what was used in earlier steps cannot be invalidated any more
  std::map<WorkerId, protocol::AuditStep> last_hashed_;  // the newest hash of each, until it counts
  std::map<Step, Hash> hashes_;
  std::uint64_t hashes_compared_ = 0;
  std::uint64_t unequal_hashes_ = 0;
};

}  // namespace elastictrain::core
