// The samples that counted, by the workers' own accounts: every one exactly once.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "fake_run.h"

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::test {
namespace {

struct Ledger {
  std::map<Step, std::set<std::uint64_t>> hashes;
  std::map<Step, std::set<std::uint32_t>> present;
  std::map<Step, std::set<Generation>> generations;
  std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> epochs;  // first position -> count
  std::set<std::tuple<std::uint32_t, Step, std::uint64_t>> known;
  std::vector<protocol::AuditStep> held;  // by states that workers were given

  void record(WorkerId worker, const protocol::AuditStep& step) {
    if (step.hashed) hashes[step.step].insert(step.state_hash);
    generations[step.step].insert(step.generation);
    if (step.count == 0 || !known.insert({worker.value, step.step, step.first_position}).second) return;
    const bool fresh = epochs[step.epoch].emplace(step.first_position, step.count).second;
    CHECK_MESSAGE(fresh, "position ", step.first_position, " counts twice, again in step ", step.step, " of ",
                  to_string(worker));
  }

  // Positions that no worker reported, from 0 to the last reported one. The epochs before that of a state are complete
  // in it.
  std::uint64_t gaps(std::uint64_t epoch, std::uint64_t end) const {
    std::vector<bool> reported(end);
    const auto tell = [&](std::uint64_t first, std::uint64_t last) {
      for (std::uint64_t position = first; position < std::min(last, end); ++position) reported[position] = true;
    };
    for (const auto& [first, count] : epochs.at(epoch)) tell(first, first + count);
    for (const auto& piece : held) {
      if (piece.epoch == epoch) tell(piece.first_position, piece.first_position + piece.count);
      if (piece.epoch > epoch) tell(0, end);
    }
    return static_cast<std::uint64_t>(std::count(reported.begin(), reported.end(), false));
  }
};

}  // namespace

void FakeRun::check_audit() const {
  const auto is_void = [&](const protocol::AuditStep& step) {
    return std::any_of(fences_.begin(), fences_.end(), [&](const protocol::Fence& fence) {
      return step.generation < fence.generation && step.step >= fence.first_step;
    });
  };
  Ledger ledger;
  for (const auto& [id, worker] : workers_) {
    CHECK(worker.hellos <= 1);
    Step last = 0;
    for (const auto& step : worker.audit) {
      if (is_void(step)) continue;
      CHECK(step.step >= last);
      last = step.step;
      ledger.present[step.step].insert(id.value);
      ledger.record(id, step);
    }
    for (const auto& step : worker.notified_of_state) {
      if (!is_void(step)) ledger.held.push_back(step);
    }
    for (const auto& [other, steps] : worker.notified_for) {
      for (const auto& step : steps) {
        if (!is_void(step)) ledger.record(other, step);
      }
    }
  }
  REQUIRE_FALSE(ledger.generations.empty());
  Step expected = 0;
  for (const auto& [step, numbers] : ledger.generations) {
    CHECK((takes_rounds_ ? step > expected : step == expected + 1));
    expected = step;
    const bool averages = committed_.at(*numbers.begin()).synchronization != protocol::Synchronization::kGradients;
    CHECK_MESSAGE(ledger.hashes[step].size() == (averages ? 0 : 1), "workers differ after step ", step);
  }
  for (const auto& [step, numbers] : ledger.generations) {
    REQUIRE(numbers.size() == 1);
    std::set<std::uint32_t> members;
    for (const auto& member : committed_.at(*numbers.begin()).members) members.insert(member.worker.value);
    // A lost member, or one that adopted the step from others, does not report it.
    const auto& present = ledger.present[step];
    if (fences_.empty()) CHECK_MESSAGE(present == members, "not exactly the members took part in step ", step);
    CHECK(std::includes(members.begin(), members.end(), present.begin(), present.end()));
  }
  const bool all_epochs_done = options_.max_steps == 0 && std::any_of(workers_.begin(), workers_.end(), [](auto& item) {
                                 return item.second.finished.has_value();
                               });
  const auto last_epoch = ledger.epochs.rbegin()->first;
  for (auto& [epoch, ranges] : ledger.epochs) {
    std::uint64_t next = 0;
    for (const auto& [first, count] : ranges) {
      CHECK_MESSAGE(first >= next, "a sample of epoch ", epoch, " is used twice at ", first);
      next = std::max(next, first + count);
    }
    // The samples returned last may not have been used again when a run was stopped.
    const bool whole = epoch != last_epoch || all_epochs_done;
    if (whole) CHECK(next == options_.sample_count);
    const std::uint64_t gaps = ledger.gaps(epoch, next);
    if (whole || fences_.empty()) CHECK_MESSAGE(gaps == 0, gaps, " samples missing in epoch ", epoch);
  }
}

}  // namespace elastictrain::test
