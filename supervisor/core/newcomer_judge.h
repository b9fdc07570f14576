// Purpose: nobody who comes harms those who are there. A worker that could not join costs no failure budget, and where
// ranks disagree the members of the newest change that are still on probation go; the others repeat the step. After two
// such tries the run stays at its size, until a user asks for another one.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/probation.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class Ending;
class Halt;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Training;
class WorkerControl;

class NewcomerJudge {
 public:
  NewcomerJudge(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                Recovery& recovery, DesiredState& desired, RunEnd& end, WorkerControl& workers, Halt& halt,
                Ending& ending);

  // The change is about to be committed: those of its members that are in no generation yet begin their probation.
  void begin();
  void active(WorkerId id, Step first_step) { probation_.active(id, first_step); }
  void take(WorkerId id, const protocol::WorkerHeartbeat& heartbeat);
  std::uint32_t without_a_step() const { return probation_.without_a_step(roster_); }
  void forget(WorkerId id) { probation_.forget(id); }

  void on_message(Worker& worker, const protocol::WorkerDeclines& message);
  void on_disagreement(Worker& worker, const protocol::WorkerHalted& message);
  // Its program ended by itself, without the others. False: it is nobody new, and the run ends.
  bool ended_alone(Worker& worker);
  // The process of a member has exited. False: it is a loss like any other.
  bool exited(WorkerId id, bool by_itself, bool good, const std::string& text);
  bool hung(WorkerId id, const std::string& text);
  // A worker in no generation has ended in good order. Where no other has the state, two such end the run.
  void ended_before_joining(const std::string& text);

 private:
  bool send_away(Generation generation, const std::string& why);
  bool could_not_join(WorkerId id, const std::string& text);
  void count_try(const std::string& why, std::size_t size);
  void count_before_training(const std::string& why);
  std::vector<WorkerId> others_than(const std::vector<WorkerId>& leaving) const;

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  RunEnd& end_;
  WorkerControl& workers_;
  Halt& halt_;
  Ending& ending_;
  Probation probation_;
};

}  // namespace elastictrain::core
