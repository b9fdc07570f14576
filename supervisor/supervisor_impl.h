// Purpose: the implementation of Supervisor, its parts in files by topic:
//   supervisor.cc          the life cycle of a run: open, loop, close
//   supervisor_resume.cc   taking over a run whose supervisor is gone
//   supervisor_events.cc   messages and events of agents, hosts, users and timers, into events of the core; the board
//   of
//                          the workers
//   supervisor_actions.cc  performs the actions that the core requests
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/agent_groups.h"
#include "supervisor/audit_file.h"
#include "supervisor/board.h"
#include "supervisor/cluster_adapter.h"
#include "supervisor/control/control_server.h"
#include "supervisor/core/membership.h"
#include "supervisor/core/pure/failure_budget.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/host_groups.h"
#include "supervisor/host_poller.h"
#include "supervisor/journal.h"
#include "supervisor/policy/runner.h"
#include "supervisor/progress.h"
#include "supervisor/recovery_log.h"
#include "supervisor/rejections.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_record.h"
#include "supervisor/supervisor.h"
#include "supervisor/timers.h"
#include "supervisor/worker_table.h"

namespace elastictrain {

class Supervisor::Impl {
 public:
  Impl(asio::io_context& io, SupervisorOptions options, launcher::Launcher& launcher, launcher::HostSource& hosts);
  ~Impl();

  Status open();
  int run();
  void launch_ended(const launcher::LaunchEnded& ended) { agents_.table().launch_ended(ended); }
  void request_stop(core::StopCause cause) { feed(core::Stop{0, cause}); }
  void stop_now(core::StopCause cause = core::StopCause::kInterrupt);
  void kill_now();
  void forward_signal(int signal);
  RunFigures figures() const;
  std::uint16_t listen_port() const { return agents_.table().port(); }
  bool suspended() const { return suspended_; }
  bool has_checkpoint() const { return checkpoints_.step().has_value(); }
  bool can_continue() const { return !program_finished_ && checkpoints_.step().has_value(); }

 private:
  core::RunSettings core_settings(const launcher::HostSource& hosts);
  core::RunResult judge_end(core::RunResult result) const;
  std::string why_unsaved() const;
  // The life cycle of a run.
  Status open_record();
  Status open_journal();
  Status listen_for_agents();
  void save_record(std::optional<RunRecord::End> end);
  core::record::RunClosed closing_record() const;
  RunRecord::End end_record() const;
  Status look_back();
  void go_on();
  core::record::SupervisorStart start_record() const;
  void announce();
  void arm_time_limit();
  void loop_until(const std::function<bool()>& done, std::chrono::milliseconds limit);
  void close_down();

  // Into the core.
  void feed(core::Event event);
  void agent_connected(AgentId agent, const protocol::AgentHello& hello);
  void agent_lost(AgentId agent, const std::string& reason, core::LossEvidence evidence);
  void on_agent_message(AgentId agent, protocol::AgentUp message);
  void on(AgentId agent, protocol::AgentHello& message);
  void on(AgentId agent, protocol::WorkerSpawned& message);
  void on(AgentId agent, protocol::WorkerSpawnFailed& message);
  void on(AgentId agent, protocol::WorkerExited& message);
  void on(AgentId agent, protocol::WorkerOutput& message);
  void on(AgentId agent, protocol::FromWorker& message);
  void on(AgentId agent, protocol::AgentReport& message);
  void on(AgentId agent, protocol::HostFacts& message);
  void on(AgentId agent, protocol::AcceleratorFacts& message);
  void on(AgentId agent, protocol::HostNotice& message);
  void on(AgentId agent, protocol::WarmProcesses& message);
  void on(AgentId agent, protocol::AgentAnswer& message);
  bool owns(AgentId agent, WorkerId worker);

  // The board of the workers.
  void open_board();
  bool take_for_board(WorkerId worker, const protocol::WorkerUp& message);
  void put_on_board(WorkerId worker, const protocol::BoardPut& put);
  void answer_from_board();
  bool may_answer(WorkerId worker) const;
  void answer(WorkerId worker, protocol::BoardAnswer content);
  void await_board();

  void reject_connection(const std::string& address, const std::string& reason);
  void connection_rejected(const std::string& address, const std::string& reason, std::uint64_t times);
  void hosts_offered(const std::vector<launcher::Host>& hosts);
  void offer_hosts();
  void tell_left_over(const HostGroups::Offer& offer);
  void look_at_groups(const core::Record& record);
  void name_group(core::Event& request) const;
  void request(const std::string& line, control::ControlServer::Answer answer);

  // Out of the core.
  void perform(core::Actions actions);
  void perform(core::LaunchAgent& action);
  void perform(core::StopAgent& action);
  void perform(core::SpawnWorker& action);
  void perform(core::StopWorker& action);
  void perform(core::SendToWorkers& action);
  void perform(core::ArmTimer& action);
  void perform(core::CancelTimer& action);
  void perform(core::Journal& action);
  void perform(core::Reply& action);
  void perform(core::Tell& action);
  void perform(core::EndRun& action);
  void perform(core::EndProcess& action);
  void perform(core::AskAgent& action);
  void perform(core::KeepWarm& action);
  void perform(core::EndWarm& action);
  void look_at_spawns(const core::Actions& actions);
  void send_to_worker(WorkerId worker, const protocol::AgentDown& message);
  void journal(const core::Record& record, bool sync = false);
  void keep_last(const core::Record& record);
  void note_final(Step step);
  void look_at_checkpoints(const core::Record& record);
  void tell(core::Tell::Level level, const std::string& text);
  double up_s() const;
  void consult_policy();
  void policy_answered();
  void carry_out(const policy::Considered& considered);
  void show_expected_length(RunFigures& figures) const;
  void note_idle(const std::optional<IdleTimes::Idle>& idle);
  void figures_changed(bool at_once);
  void show_figures();

  asio::io_context& io_;
  SupervisorOptions options_;
  core::Membership membership_;
  AgentGroups agents_;
  WorkerTable workers_;
  Progress progress_;
  IdleTimes idle_times_;
  RecoveryLog recoveries_;
  CheckpointLog checkpoints_;
  policy::Runner policy_;
  ClusterSide cluster_;
  Timers timers_;
  Rejections rejections_;
  HostPoller hosts_;
  HostGroups groups_;                                   // where a worker lies on several hosts
  std::optional<std::vector<launcher::Host>> offered_;  // by the host source
  std::vector<core::HostSlots> grouped_;                // of these, as the core knows them
  std::vector<std::string> left_over_;                  // hosts, as the user was told
  std::optional<RunDirectory> directory_;
  std::optional<core::Resumed> resumed_;  // until the core has it
  double up_before_s_ = 0;                // under earlier supervisors
  double life_began_s_ = 0;               // when the run was started again last
  std::uint64_t last_size_ = 0;           // of the newest generation with workers
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<AuditFile> audits_;
  Board board_;
  std::unique_ptr<BoardFile> board_file_;
  std::unique_ptr<control::ControlServer> control_;
  asio::steady_timer time_limit_;
  asio::steady_timer figures_timer_;
  asio::steady_timer rejections_timer_;
  asio::steady_timer board_timer_;

  std::deque<core::Event> events_;
  bool stepping_ = false;
  std::map<std::uint64_t, control::ControlServer::Answer> requests_;
  std::uint64_t last_request_ = 0;
  std::uint32_t nodes_ = 1;
  AgentId first_agent_;  // of rank 0
  std::uint16_t master_port_ = 0;
  bool has_gpus_ = false;  // some host
  bool figures_scheduled_ = false;
  Instant figures_shown_;
  Instant started_;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // callbacks that come too late find it expired
  bool rejections_scheduled_ = false;
  bool ended_ = false;
  bool suspended_ = false;
  bool program_finished_ = false;
  bool trained_ = false;            // so a state was there to be saved
  bool all_leave_ = false;          // the newest generation has no members
  std::optional<Step> final_step_;  // of the first worker at the run's end
  bool hurry_ = false;              // a second interrupt during the end
  int exit_status_ = 70;
  std::string end_reason_ = "the event loop ended";
};

Instant clock_now();

}  // namespace elastictrain
