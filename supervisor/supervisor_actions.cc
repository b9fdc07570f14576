// Performs the actions that the core requests.
#include <algorithm>
#include <asio/error_code.hpp>
#include <cstdlib>
#include <map>
#include <utility>

#include "supervisor/control/control_request.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/relay_frame.h"
#include "supervisor/supervisor_impl.h"
#include "supervisor/worker_program.h"

namespace elastictrain {
namespace {

constexpr std::chrono::milliseconds kFiguresPeriod{100};  // between two updates of the figures that are shown

core::record::Decided record_of(const heuristics::JobDecision& decision, const std::string& policy) {
  core::record::Decided decided;
  decided.policy = policy;
  decided.code = decision.reason.code;
  decided.reason = decision.reason.text;
  decided.workers = decision.workers;
  for (const auto& replacement : decision.replacements) {
    if (!decided.replace) decided.replace.emplace(), decided.because.emplace();
    decided.replace->push_back(replacement.worker);
    decided.because->push_back(replacement.reason.text);
  }
  decided.numbers.assign(decision.reason.numbers.begin(), decision.reason.numbers.end());
  return decided;
}

}  // namespace

void Supervisor::Impl::perform(core::Actions actions) {
  look_at_spawns(actions);
  for (core::Action& action : actions) std::visit([this](auto& content) { perform(content); }, action);
}

// Each worker's environment holds the number of hosts and the address of rank 0, so the whole batch is needed first.
void Supervisor::Impl::look_at_spawns(const core::Actions& actions) {
  bool first_of_batch = true;
  for (const core::Action& action : actions) {
    const auto* spawn = std::get_if<core::SpawnWorker>(&action);
    if (spawn == nullptr) continue;
    if (std::exchange(first_of_batch, false)) {
      nodes_ = 1;
      const AgentId known = workers_.agent_of_rank_zero();
      if (known.value != 0) first_agent_ = known;
    }
    nodes_ = std::max(nodes_, spawn->node_rank + 1);
    if (spawn->rank == 0) first_agent_ = spawn->agent;
  }
}

void Supervisor::Impl::perform(core::LaunchAgent& action) {
  // A host has one agent at a time: messages of an older one are ignored.
  for (const AgentId older : workers_.agents_on(action.host)) {
    if (agents_.connection_of(older) == nullptr) workers_.remove_all_of(older);
  }
  agents_.launch(action.agent, action.host);
  groups_.begun(action.host);
}

void Supervisor::Impl::perform(core::StopAgent& action) {
  agents_.stop(action.agent, std::chrono::milliseconds(action.grace_ms));
  // Given up while it was away: no report about its workers' exits will arrive.
  if (agents_.connection_of(action.agent) == nullptr) workers_.remove_all_of(action.agent);
}

void Supervisor::Impl::perform(core::SpawnWorker& action) {
  workers_.spawned(action, workers_.generation() == 0);
  cluster_.spawned(action);
  WorkerSurroundings around;
  around.saved_step = checkpoints_.step();
  around.run_name = options_.settings.run_name;
  around.generation = workers_.generation();
  around.node_count = nodes_;
  around.master_address = master_address(agents_.table(), first_agent_);
  around.master_port = master_port_;
  around.restarts = recoveries_.count() + recoveries_.plain_restarts();
  around.max_restarts = options_.settings.failures.max_crashes;
  around.omp_threads_chosen = std::getenv("OMP_NUM_THREADS") != nullptr;
  around.user_environment = options_.program.environment;
  agents_.spawn(action.agent, {action.worker,
                               action.slot,
                               options_.program.argv,
                               worker_environment(action, around),
                               options_.program.working_directory,
                               action.warm,
                               {}});
}

void Supervisor::Impl::perform(core::StopWorker& action) {
  send_to_worker(action.worker, protocol::StopWorker{action.worker, action.grace_ms});
}

void Supervisor::Impl::send_to_worker(WorkerId worker, const protocol::AgentDown& message) {
  const WorkerEntry* entry = workers_.find(worker);
  if (entry != nullptr) agents_.send(entry->agent, protocol::encode_frame(message));
}

void Supervisor::Impl::perform(core::AskAgent& action) {
  send_to_worker(action.asked.worker, action.asked);
}

void Supervisor::Impl::perform(core::KeepWarm& action) {
  agents_.send(action.agent, protocol::encode_frame(protocol::AgentDown(protocol::KeepWarm{action.worker})));
}

void Supervisor::Impl::perform(core::EndWarm& action) {
  agents_.send(action.agent, protocol::encode_frame(protocol::AgentDown(protocol::EndWarm{action.worker})));
}

void Supervisor::Impl::perform(core::SendToWorkers& action) {
  if (const auto* prepare = std::get_if<protocol::Prepare>(&action.message)) {
    workers_.planned(prepare->plan);
    idle_times_.planned(prepare->plan);
    policy_.planned(prepare->plan);
    cluster_.planned(prepare->plan);
  }
  if (const auto* commit = std::get_if<protocol::Commit>(&action.message)) {
    workers_.committed(commit->generation);
    note_idle(idle_times_.committed(commit->generation));
    figures_changed(true);
  }
  std::map<AgentId, std::vector<WorkerId>> by_agent;
  for (WorkerId worker : action.workers) {
    if (const WorkerEntry* entry = workers_.find(worker)) by_agent[entry->agent].push_back(worker);
  }
  const RelayFrame frame(action.message);
  for (const auto& [agent, workers] : by_agent) agents_.send(agent, frame.to(workers));
}

void Supervisor::Impl::perform(core::ArmTimer& action) {
  timers_.arm(action.timer, action.when);
}
void Supervisor::Impl::perform(core::CancelTimer& action) {
  timers_.cancel(action.timer);
}

void Supervisor::Impl::perform(core::Journal& action) {
  journal(action.record, action.sync);
  figures_changed(false);
}

void Supervisor::Impl::perform(core::Reply& action) {
  const auto found = requests_.find(action.request);
  if (found == requests_.end()) return;
  const auto answer = std::move(found->second);
  requests_.erase(found);
  answer(control::answer_line(action.accepted, action.text));
}

void Supervisor::Impl::perform(core::Tell& action) {
  tell(action.level, action.text);
}

void Supervisor::Impl::perform(core::EndRun& action) {
  while (const auto idle = idle_times_.close()) note_idle(idle);
  ended_ = true;
  exit_status_ = action.exit_status;
  suspended_ = action.suspended;
  end_reason_ = action.reason;
}

// Its workers and agents find their supervisor gone, as they do when it is killed.
void Supervisor::Impl::perform(core::EndProcess& action) {
  const std::string& name = options_.settings.run_name;
  tell(core::Tell::Level::kError, "internal error: " + action.rule +
                                      ". Nothing of this was carried out, and the workers train on. Take the run over "
                                      "within " +
                                      std::to_string(options_.orphan_grace_ms / 1000) +
                                      " s: elastictrain run --resume " + name + ". Please report this with " +
                                      journal_->path());
  options_.end_process();
}

void Supervisor::Impl::journal(const core::Record& record, bool sync) {
  if (journal_ && journal_->write(record, sync)) {
    const core::Journal state = membership_.state_record();
    journal_->write(state.record, state.sync);
  }
  recoveries_.take(record, up_s());
  keep_last(record);
  look_at_groups(record);
  look_at_checkpoints(record);
  const bool moves = record.is<core::record::GenerationComplete>() || record.is<core::record::HaltSettled>();
  if (moves) cluster_.changed();
  if (options_.on_journal) options_.on_journal(record);
}

void Supervisor::Impl::keep_last(const core::Record& record) {
  const auto* commit = record.as<core::record::Commit>();
  if (commit != nullptr && commit->world_size > 0) last_size_ = commit->world_size;
  if (commit != nullptr) all_leave_ = commit->world_size == 0;
  const auto* left = record.as<core::record::Left>();
  if (left != nullptr && all_leave_) {
    progress_.on_last_step(left->last_step);
    note_final(left->last_step);
  }
  trained_ = trained_ || record.is<core::record::Active>();
  if (const auto* finished = record.as<core::record::Finished>()) {
    progress_.on_last_step(finished->last_step);
    note_final(finished->last_step);
    program_finished_ = true;
  }
}

// Workers that average models are not at the same step: the first of them that ends writes the state.
void Supervisor::Impl::note_final(Step step) {
  final_step_ = std::min(final_step_.value_or(step), step);
}

void Supervisor::Impl::look_at_checkpoints(const core::Record& record) {
  if (const auto message = checkpoints_.take(record, clock_now())) tell(message->level, message->text);
}

void Supervisor::Impl::tell(core::Tell::Level level, const std::string& text) {
  if (options_.on_tell) options_.on_tell(level, text);
}

void Supervisor::Impl::note_idle(const std::optional<IdleTimes::Idle>& idle) {
  if (!idle) return;
  journal(core::record::Idle{idle->generation, idle->seconds * 1e3});
}

double Supervisor::Impl::up_s() const {
  return up_before_s_ + std::chrono::duration<double>(clock_now() - started_).count();
}

// The decision and its numbers are in the journal before anything follows from it.
void Supervisor::Impl::consult_policy() {
  if (ended_ || !policy_.is_due(up_s())) return;
  auto considered = policy_.consider(membership_.view(), up_s());
  if (!considered) return;
  journal(core::record::Observed{{considered->observed}});
  carry_out(*considered);
}

void Supervisor::Impl::policy_answered() {
  if (ended_) return;
  if (const auto considered = policy_.take_answer(membership_.view())) carry_out(*considered);
}

void Supervisor::Impl::carry_out(const policy::Considered& considered) {
  const std::string name = policy::display_name(options_.policy);
  const heuristics::JobDecision& decision = considered.decision;
  if (!considered.failure.empty()) tell(core::Tell::Level::kWarning, "policy " + name + ": " + considered.failure);
  if (!considered.is_news) return;
  journal(record_of(decision, name));
  for (const core::Event& event : considered.events) feed(event);
}

RunFigures Supervisor::Impl::figures() const {
  RunFigures figures;
  figures.view = membership_.view();
  figures.uptime_s = up_s();
  const protocol::WorkerHeartbeat& newest = progress_.newest();
  figures.epoch = newest.epoch;
  figures.epoch_fraction = newest.epoch_fraction;
  figures.step = progress_.step();
  figures.loss = progress_.loss();
  figures.samples_per_s = newest.samples_per_s;
  if (policy_.has_news()) figures.policy = policy::display_name(options_.policy);
  if (policy_.has_news()) figures.policy_reason = policy_.last_reason().text;
  const policy::Economy economy = policy_.economy();
  figures.worker_seconds = economy.worker_seconds;
  figures.cost = economy.cost;
  figures.scaling_efficiency = economy.scaling_efficiency;
  figures.smallest_size = economy.smallest_size;
  figures.waits = cluster_.waits();
  figures.idle_s = idle_times_.total_s();
  figures.last_idle_s = idle_times_.last_s();
  figures.recoveries = recoveries_.count();
  figures.time_left_s = time_left_s(newest, figures.view);
  show_expected_length(figures);
  if (const auto& change = recoveries_.last_change()) {
    if (figures.view.last_change.empty())
      figures.view.last_change = "generation " + std::to_string(change->generation) + ": " + change->reason;
    figures.last_change_age_s = figures.uptime_s - change->up_s;
  }
  if (const auto& last = recoveries_.last()) {
    figures.last_recovery = last->reason;
    figures.last_recovery_idle_s = last->idle_s;
  }
  figures.checkpoint = {.step = checkpoints_.step(),
                        .age_s = checkpoints_.age_s(clock_now()),
                        .failures = checkpoints_.failures(),
                        .reason = checkpoints_.reason()};
  return figures;
}

void Supervisor::Impl::show_expected_length(RunFigures& figures) const {
  figures.no_expected_length = policy_.no_expected_length(figures.view);
  const auto expected = policy_.expected_length(figures.view);
  if (!expected) return;
  figures.expected_samples = expected->samples;
  figures.expected_error_samples = expected->error;
  const protocol::WorkerHeartbeat& newest = progress_.newest();
  if (newest.samples_per_s <= 0) return;
  const double left = expected->samples - static_cast<double>(newest.samples_used);
  figures.expected_left_s = std::max(0.0, left) / newest.samples_per_s;
}

// A snapshot costs time in proportion to the workers, so it is taken for observers, not for every event.
void Supervisor::Impl::figures_changed(bool at_once) {
  if (!options_.on_figures || (figures_scheduled_ && !at_once)) return;
  figures_scheduled_ = true;
  const Instant due = at_once ? clock_now() : figures_shown_ + kFiguresPeriod;
  figures_timer_.expires_at(due);
  figures_timer_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (!error && !life.expired()) show_figures();
  });
}

void Supervisor::Impl::show_figures() {
  figures_scheduled_ = false;
  figures_shown_ = clock_now();
  options_.on_figures(figures());
}

}  // namespace elastictrain
