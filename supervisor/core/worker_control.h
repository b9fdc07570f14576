// Purpose: starts and ends worker processes: what is ordered, what is expected by when, what a worker is called in
// messages.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class HangDetector;
class HostHealth;
class Outbox;
struct Recovery;
struct RunSettings;
struct Startup;
struct Training;

// Whether the slot of a failed new worker gets a second chance.
enum class Retry : std::uint8_t { kOnce, kNever };

class WorkerControl {
 public:
  WorkerControl(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, Training& training,
                Change& change, Recovery& recovery, DesiredState& desired, HostHealth& health, HangDetector& hangs);

  const std::vector<WorkerId>& newest_members() const;
  std::string name_of(const Worker& worker) const;
  void start(const std::vector<WorkerId>& next, const std::vector<WorkerId>& fresh);
  void expect_ready(Worker& worker);
  void expect_exit(Worker& worker);
  void drop_joiner(const Worker& worker, const std::string& why, Retry retry);
  // Which new worker failed last, where and why; empty: none has.
  const std::string& newest_failure() const { return newest_failure_; }
  void expel_joiner(WorkerId id, const std::string& why);
  // A new worker could not join. If it was started as rank 0 in place of another, this may be why: no further one is.
  void note_failed(const Worker& worker, const std::string& why);
  const std::string& why_no_first() const { return no_first_; }
  void dismiss(Worker& worker, const std::string& reason);
  void stop(Worker& worker);
  void end_for_good(Worker& worker);
  void remove(WorkerId id);

 private:
  bool take_warm(const Worker& worker);
  std::optional<WorkerId> successor_of_first(const std::vector<WorkerId>& next,
                                             const std::vector<WorkerId>& fresh) const;

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  HostHealth& health_;
  HangDetector& hangs_;
  std::string reported_cause_;  // why the last joiner was dropped, and its host
  std::string newest_failure_;
  std::string no_first_;  // why no worker is started as rank 0 any more; empty: one is when none is left
};

}  // namespace elastictrain::core
