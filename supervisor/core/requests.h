// Purpose: answers users, policies and the program. Each request changes the desired state and is answered at once; the
// progress towards it is reported and recorded as it happens.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/transitions.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class Ending;
class HostList;
class Outbox;
class Planner;
struct RunEnd;
struct RunSettings;
struct Startup;
struct Training;
class WorkerControl;

class Requests {
 public:
  Requests(RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired, Startup& startup,
           Training& training, Change& change, RunEnd& end, Planner& planner, WorkerControl& workers, HostList& hosts,
           Ending& ending);

  void on(const Resize& event);
  void on(const ReplaceWorker& event);
  void on(const ReplaceHost& event);
  void on(const DrainHost& event);
  void on(const UndrainHost& event);
  void on(const UpdatePlan& event);
  void on(const Stop& event);
  void on(const StopNow& event);
  void on_message(Worker& worker, const protocol::WorkerRequest& message);
  void refuse(std::uint64_t request, const std::string& text);
  std::string outside_limits(std::uint32_t workers) const;
  std::string refusal(Phase phase) const;

 private:
  void accept(std::uint64_t request, const std::string& text);
  std::string resize_text(std::uint32_t target) const;
  std::string hold_text(const Resize& event) const;
  void give_back(const Resize& event);
  void refuse_program(const std::string& why);
  std::string why_not_undrained(const std::string& host, const Agent* agent) const;
  bool is_for_later(const UpdatePlan& event) const;

  RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  DesiredState& desired_;
  Startup& startup_;
  Training& training_;
  Change& change_;
  RunEnd& end_;
  Planner& planner_;
  WorkerControl& workers_;
  HostList& hosts_;
  Ending& ending_;
};

}  // namespace elastictrain::core
