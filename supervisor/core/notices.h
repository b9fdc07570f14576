// Purpose: a TERM that a worker got from a process other than its agent. A system that ends a job or a host sends TERM
// to every process there; agents and the run get it as well, and their plan lets the workers leave. A TERM to a single
// worker is a request to remove that worker: it is replaced.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
class ChangeRunner;
struct DesiredState;
class Outbox;
class Planner;
struct RunEnd;
struct RunSettings;
class WorkerControl;

class Notices {
 public:
  Notices(const RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired, Change& change, RunEnd& end,
          Planner& planner, WorkerControl& workers, ChangeRunner& runner);

  void on_message(Worker& worker, const protocol::WorkerNote& message);
  void answer_notices();

 private:
  enum class NoticeAnswer : std::uint8_t { kOneOfAll, kReplace, kDismiss };

  void got_term(Worker& worker);
  void expect_notices();
  bool all_noticed() const;
  NoticeAnswer answer_to(const Worker& worker, bool all) const;
  void act_on(NoticeAnswer answer, Worker& worker);
  static std::string text_of(NoticeAnswer answer);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  DesiredState& desired_;
  Change& change_;
  RunEnd& end_;
  Planner& planner_;
  WorkerControl& workers_;
  ChangeRunner& runner_;
  std::uint64_t timer_ = 0;
};

}  // namespace elastictrain::core
