#include "tests/simulation/supervisor_process.h"

#include <algorithm>
#include <utility>

#include "supervisor/core/pure/invariants.h"
#include "tests/golden/describe.h"
#include "tests/simulation/journal_records.h"
#include "tests/simulation/worker_process.h"
#include "tests/simulation/world.h"

namespace elastictrain::simulation {
namespace {

using namespace protocol;
constexpr const char* kName = "supervisor";

std::function<Token()> tokens(World& world) {
  return [&world] {
    Token token{};
    for (std::uint8_t& byte : token) byte = static_cast<std::uint8_t>(world.rng.next());
    return token;
  };
}

}  // namespace

SupervisorProcess::SupervisorProcess(World& world) : world_(world), membership_(world.setup.settings, tokens(world)) {}
SupervisorProcess::~SupervisorProcess() = default;

void SupervisorProcess::begin() {
  journal_check_.emplace(world_.setup.settings);
  world_.disk.journal(world_.queue.now(), run_opened(world_.setup.settings, world_.disk.boots));
  heartbeats();
  offer_hosts();
}

void SupervisorProcess::take_over(const core::Resumed& resumed) {
  world_.disk.journal(world_.queue.now(), run_resumed(world_.setup.settings, world_.disk.boots));
  journal_check_.emplace(world_.setup.settings);
  for (const core::Record& record : records_of(world_.disk.journal_text())) journal_check_->take(record);
  for (const auto& agent : resumed.agents) {
    if (!agent.drained) entries_[agent.agent].came = true;
  }
  for (const auto& worker : resumed.workers) homes_[worker.worker] = worker.agent;
  heartbeats();
  feed(resumed);
  offer_hosts();
}

void SupervisorProcess::crash() {
  if (crashed_) return;
  world_.log(kName, [] { return "is killed"; });
  crashed_ = true;
  life_ = std::make_shared<char>();
  for (auto& [id, entry] : entries_) {
    if (entry.connection && world_.agent(id) == nullptr) world_.lose_audits();  // its last messages are in transit
    if (entry.connection) entry.connection->down.close(world_.rng.chance(0.5));
    entry.connection = nullptr;
  }
  events_.clear();
  if (world_.disk.misses_records()) world_.forget_drains();
  if (world_.on_supervisor_crash) world_.on_supervisor_crash();
}

void SupervisorProcess::crash_amid_actions(std::optional<std::uint32_t> after) {
  crash_after_ = after;
}

// ---------------------------------------------------------------------------------------------------------------
// Agents

void SupervisorProcess::accept(AgentId agent, Connection& accepted) {
  Connection* const connection = &accepted;
  connection->up.set_receiver(
      [this, agent, connection, life = std::weak_ptr(life_)](const AgentUp& message) {
        if (life.expired()) return;
        const auto* hello = std::get_if<AgentHello>(&message);
        if (hello == nullptr) {
          if (entries_[agent].connection == connection) received(agent, message);
          return;
        }
        const auto found = entries_.find(agent);
        if (found == entries_.end() || found->second.stopping) {
          world_.log(kName, [&] { return "turns " + to_string(agent) + " away"; });
          world_.lose_audits();
          connection->down.send(StopAgent{0});
          connection->down.close(true);
          return;
        }
        Entry& entry = found->second;
        if (entry.connection) {
          std::exchange(entry.connection, nullptr)->down.close(true);
          lost(agent, "it has reconnected", core::LossEvidence::kConnection);
        }
        entry.connection = connection;
        entry.acknowledged_report = 0;
        entry.came = true;
        feed(core::AgentConnected{agent, hello->workers, hello->warm});
      },
      [this, agent, connection, life = std::weak_ptr(life_)] {
        if (!life.expired() && entries_[agent].connection == connection) closed(agent);
      });
}

bool SupervisorProcess::receives(AgentId agent, const Connection* connection) const {
  const auto found = entries_.find(agent);
  return !crashed_ && connection != nullptr && found != entries_.end() && found->second.connection == connection;
}

void SupervisorProcess::closed(AgentId agent) {
  const bool ended = entries_[agent].ended;
  lost(agent, "its connection ended", ended ? core::LossEvidence::kProcess : core::LossEvidence::kConnection);
}

void SupervisorProcess::lost(AgentId agent, const std::string& reason, core::LossEvidence evidence) {
  entries_[agent].connection = nullptr;
  if (evidence == core::LossEvidence::kNeverCame) entries_[agent].stopping = true;
  if (!closing_) feed(core::AgentLost{agent, reason, evidence});
}

void SupervisorProcess::launch_ended(AgentId agent, bool came, bool agent_ended, const std::string& reason) {
  const auto found = entries_.find(agent);
  if (crashed_ || found == entries_.end() || !found->second.launched_here) return;
  Entry& entry = found->second;
  if (!entry.came) {
    if (!came || agent_ended) lost(agent, reason, core::LossEvidence::kNeverCame);
    return;
  }
  if (!agent_ended) return;
  entry.ended = true;
  if (!entry.connection) lost(agent, reason, core::LossEvidence::kProcess);
}

void SupervisorProcess::received(AgentId agent, const AgentUp& message) {
  if (const auto* report = std::get_if<AgentReport>(&message)) {
    entries_[agent].acknowledged_report = report->sequence;
    return feed(core::AgentReported{agent, *report});
  }
  if (const auto* notice = std::get_if<HostNotice>(&message)) return feed(core::HostNoticed{agent, notice->reason});
  if (const auto* failed = std::get_if<WorkerSpawnFailed>(&message)) {
    if (owns(agent, failed->worker)) feed(core::WorkerSpawnFailed{failed->worker, failed->reason, failed->exit_status});
  }
  if (const auto* exited = std::get_if<WorkerExited>(&message)) {
    if (owns(agent, exited->worker)) {
      feed(core::WorkerExited{exited->worker, exited->exit_code, exited->signal, exited->last_error_lines,
                              exited->out_of_memory, exited->memory_limit_bytes, exited->peak_bytes});
    }
  }
  if (const auto* warm = std::get_if<WarmProcesses>(&message)) {
    return feed(core::WarmReported{agent, warm->processes});
  }
  if (const auto* answer = std::get_if<AgentAnswer>(&message)) return feed(core::AgentAnswered{agent, *answer});
  if (const auto* from = std::get_if<FromWorker>(&message)) {
    if (!owns(agent, from->worker)) return;
    world_.oracle.delivered(from->worker, from->message);
    if (const auto* audit = std::get_if<WorkerAudit>(&from->message)) {
      world_.disk.audits.emplace_back(from->worker, *audit);
    }
    feed(core::WorkerMessage{from->worker, from->message});
  }
}

bool SupervisorProcess::owns(AgentId agent, WorkerId worker) const {
  const auto found = homes_.find(worker);
  return found != homes_.end() && found->second == agent;
}

void SupervisorProcess::heartbeats() {
  for (auto& [id, entry] : entries_) {
    if (entry.connection) entry.connection->down.send(SupervisorHeartbeat{1, entry.acknowledged_report});
  }
  world_.queue.after(world_.setup.heartbeat, [this, life = std::weak_ptr(life_)] {
    if (!life.expired()) heartbeats();
  });
}

void SupervisorProcess::send(AgentId agent, AgentDown message) {
  const auto found = entries_.find(agent);
  if (found != entries_.end() && found->second.connection) found->second.connection->down.send(std::move(message));
}

void SupervisorProcess::send_to_worker(WorkerId worker, AgentDown message) {
  const auto found = homes_.find(worker);
  if (found != homes_.end()) send(found->second, std::move(message));
}

// ---------------------------------------------------------------------------------------------------------------
// Events and actions

void SupervisorProcess::offer_hosts() {
  if (world_.setup.settings.leased) return offer_lease();
  core::HostsOffered offered;
  for (const auto& host : world_.hosts) {
    if (host->offered) offered.hosts.push_back({host->name, host->slots});
  }
  listed_.clear();
  for (const core::HostSlots& host : offered.hosts) listed_.insert(host.host);
  feed(std::move(offered));
}

// As a cluster does: a version for each change, repeated to a supervisor that connects.
void SupervisorProcess::offer_lease() {
  core::LeaseGiven given{.version = 0, .hosts = {}, .reason = "share"};
  for (const auto& host : world_.hosts) {
    core::HostSlots leased{host->name, host->slots};
    for (std::uint32_t slot : host->leased) {
      if (slot < host->slots) leased.only.push_back(slot);
    }
    if (host->offered && !leased.only.empty()) given.hosts.push_back(std::move(leased));
  }
  const bool changed = given.hosts != world_.lease || world_.lease_held != world_.lease_holds;
  if (changed || world_.lease_version == 0) {
    ++world_.lease_version;
    world_.lease_moved = world_.lease_moves;
  }
  world_.lease = given.hosts;
  given.hold = world_.lease_held = world_.lease_holds;
  given.moves = world_.lease_moved;
  given.version = world_.lease_version;
  feed(std::move(given));
}

void SupervisorProcess::ask(core::Event event) {
  world_.oracle.asked(core::request_of(event));
  if (const auto* drain = std::get_if<core::DrainHost>(&event)) drains_[drain->request] = drain->host;
  if (const auto* undrain = std::get_if<core::UndrainHost>(&event)) {
    undrains_[undrain->request] = undrain->host;
    world_.drained.erase(undrain->host);  // it may take effect without an answer, if the supervisor is lost
  }
  feed(std::move(event));
}

void SupervisorProcess::feed(core::Event event) {
  if (crashed_) return;
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  while (!events_.empty() && !crashed_) {
    const core::Event next = std::move(events_.front());
    events_.pop_front();
    const bool quiet = std::holds_alternative<core::AgentReported>(next);
    if (!quiet) world_.log(kName, [&] { return std::string("< ") + core::name_of(next); });
    const bool voids_slots = std::holds_alternative<core::DrainHost>(next) ||
                             std::holds_alternative<core::HostNoticed>(next) ||
                             std::holds_alternative<core::LeaseGiven>(next);
    perform_all(membership_.step(next, world_.queue.now()));
    check_journal();
    if (voids_slots && world_.setup.settings.keeps_warm) check_warm();
  }
  stepping_ = false;
}

// A supervisor that is lost now is succeeded by one that knows what this one knows. Once the run has ended, only that
// counts.
void SupervisorProcess::check_journal() {
  if (!journal_check_ || crashed_ || membership_.ended()) return;
  if (const auto difference = journal_check_->difference(membership_)) world_.violated("journal_fold", *difference);
}

// A process without a worker ends as soon as its slot or host is not to be used any more, not when the host is empty.
void SupervisorProcess::check_warm() {
  if (crashed_ || membership_.ended()) return;
  for (const core::AgentView& agent : membership_.view().agents) {
    if (entries_[agent.agent].connection == nullptr) continue;  // it says what it has when it is back
    for (const auto& process : agent.warm) {
      const bool leased = !world_.setup.settings.leased || world_.leases(agent.host, process.slot);
      if (leased && !agent.leaving()) continue;
      world_.violated("warm_is_alone", "the process that was " + to_string(process.worker) + " waits on " + agent.host +
                                           ", which is to be left");
    }
  }
}

void SupervisorProcess::perform_all(const core::Actions& actions) {
  for (const core::Action& action : actions) {
    if (crash_after_ && !world_.disk.misses_records() && (*crash_after_)-- == 0) {
      crash_after_.reset();
      if (const auto* record = std::get_if<core::Journal>(&action)) {
        world_.disk.tear(world_.queue.now(), *record, world_.rng);
      }
      return crash();
    }
    if (world_.trace.on()) {
      if (const std::string text = core::describe(action); !text.empty()) {
        world_.log(kName, [&] { return "  " + text; });
      }
    }
    std::visit([this](const auto& content) { perform(content); }, action);
  }
}

void SupervisorProcess::perform(const core::LaunchAgent& action) {
  entries_[action.agent].launched_here = true;
  world_.launch(action.agent, action.host);
}

void SupervisorProcess::perform(const core::StopAgent& action) {
  const auto found = entries_.find(action.agent);
  if (found == entries_.end()) return;
  found->second.stopping = true;
  if (found->second.connection) {
    send(action.agent, StopAgent{action.grace_ms});
  } else if (found->second.launched_here) {
    world_.forget(action.agent);
  }
}

void SupervisorProcess::check_spawn(const core::SpawnWorker& action) const {
  const auto view = membership_.view();
  if (view.lease && view.lease->version == world_.lease_version && !world_.leases(action.host, action.slot)) {
    return world_.violated("lease_is_kept", to_string(action.worker) + " is started on slot " +
                                                std::to_string(action.slot) + " of " + action.host +
                                                ", which is not leased to the run");
  }
  if (world_.drained.contains(action.host)) {
    return world_.violated("drain_stays",
                           to_string(action.worker) + " is started on " + action.host + ", which a user has drained");
  }
  const auto found = entries_.find(action.agent);
  if (found != entries_.end() && found->second.connection != nullptr) return;
  world_.violated("spawn_where_connected",
                  to_string(action.worker) + " is started on " + to_string(action.agent) + ", which is not connected");
}

void SupervisorProcess::perform(const core::SpawnWorker& action) {
  check_spawn(action);
  homes_[action.worker] = action.agent;
  world_.oracle.started(action.worker);
  SpawnWorker order{
      .worker = action.worker, .slot = action.slot, .argv = {}, .environment = {}, .working_directory = {}};
  if (action.from_checkpoint) order.environment.emplace_back("ELASTICTRAIN_RESUME=1");
  std::string lineage;
  for (const Fence& fence : action.lineage) {
    lineage += (lineage.empty() ? "" : ",") + std::to_string(fence.generation) + ":" + std::to_string(fence.first_step);
  }
  if (!lineage.empty()) order.environment.push_back("ELASTICTRAIN_LINEAGE=" + lineage);
  order.warm = action.warm;
  send(action.agent, std::move(order));
}

// Without a fault nothing justifies the stop of a worker that trains.
void SupervisorProcess::check_stop(WorkerId worker) const {
  const WorkerProcess* process = world_.worker(worker);
  const core::RunPhase phase = membership_.view().phase;
  const bool ending = phase == core::RunPhase::kStopping || phase == core::RunPhase::kEnded;
  if (ending || !world_.undisturbed || process == nullptr || !process->trains()) return;
  world_.violated("healthy_member_stays", to_string(worker) + " is stopped while it trains and nothing is wrong");
}

// Who is only late is ended where another one holds the state, when that is decided: its stacks are asked for first.
void SupervisorProcess::check_kill(WorkerId worker) {
  if (!world_.condemned.insert(worker).second) return;
  const WorkerProcess* process = world_.worker(worker);
  if (process == nullptr || !process->is_late() || process->stopped() || process->hangs()) return;
  const core::RunView view = membership_.view();
  if (view.phase == core::RunPhase::kStopping || view.phase == core::RunPhase::kEnded) return;
  const bool others = std::any_of(view.workers.begin(), view.workers.end(), [&](const core::WorkerView& other) {
    return other.worker != worker && other.rank && other.phase != core::WorkerPhase::kGone &&
           other.phase != core::WorkerPhase::kLeaving;
  });
  if (!others) world_.violated("late_is_not_lost", to_string(worker) + " is late and ended with the last state");
}

void SupervisorProcess::perform(const core::StopWorker& action) {
  check_stop(action.worker);
  if (action.grace_ms == 0) check_kill(action.worker);
  send_to_worker(action.worker, StopWorker{action.worker, action.grace_ms});
}

void SupervisorProcess::perform(const core::KeepWarm& action) {
  send(action.agent, KeepWarm{action.worker});
}

void SupervisorProcess::perform(const core::EndWarm& action) {
  send(action.agent, EndWarm{action.worker});
}

void SupervisorProcess::perform(const core::AskAgent& action) {
  if (action.asked.question == Question::kStacks) check_kill(action.asked.worker);
  send_to_worker(action.asked.worker, action.asked);
}

std::set<WorkerId> SupervisorProcess::known_workers() const {
  std::set<WorkerId> known;
  for (const core::WorkerView& worker : membership_.view().workers) {
    if (worker.phase != core::WorkerPhase::kGone && worker.phase != core::WorkerPhase::kLeaving) {
      known.insert(worker.worker);
    }
  }
  return known;
}

void SupervisorProcess::perform(const core::SendToWorkers& action) {
  const bool plans = std::holds_alternative<Prepare>(action.message);
  world_.oracle.sends(action.message, plans ? known_workers() : std::set<WorkerId>{});
  for (const WorkerId worker : action.workers) world_.oracle.addresses(worker);
  std::map<AgentId, std::vector<WorkerId>> by_agent;
  for (const WorkerId worker : action.workers) {
    if (const auto found = homes_.find(worker); found != homes_.end()) by_agent[found->second].push_back(worker);
  }
  for (const auto& [agent, workers] : by_agent) send(agent, ToWorkers{workers, action.message});
}

void SupervisorProcess::perform(const core::ArmTimer& action) {
  timers_.insert(action.timer);
  world_.queue.at(action.when, [this, timer = action.timer, life = std::weak_ptr(life_)] {
    if (!life.expired() && timers_.erase(timer) > 0) feed(core::TimerFired{timer});
  });
}

void SupervisorProcess::perform(const core::CancelTimer& action) {
  if (timers_.erase(action.timer) == 0) world_.violated("timers", "a timer is cancelled that is not armed");
}

void SupervisorProcess::perform(const core::Journal& action) {
  world_.oracle.journaled(action);
  const auto* loss = action.record.as<core::record::Loss>();
  if (loss != nullptr && loss->failure_class == "hang" && !world_.stalled) {
    world_.violated("hang_is_real", "a loss is taken for a hang though nothing stands still: " + loss->what);
  }
  if (const auto* gone = action.record.as<core::record::HostVanished>()) world_.drained.erase(gone->host);
  if (journal_check_) journal_check_->take(action.record);
  if (world_.disk.journal(world_.queue.now(), action)) {
    world_.disk.journal(world_.queue.now(), membership_.state_record());
  }
}

void SupervisorProcess::perform(const core::Reply& action) {
  world_.oracle.replied(action.request);
  note_drain(action);
}

// A host that is not listed is forgotten with its agent, and with it that it was drained.
void SupervisorProcess::note_drain(const core::Reply& reply) {
  if (!reply.accepted || world_.setup.settings.leased) return;
  if (const auto found = drains_.find(reply.request); found != drains_.end() && listed_.contains(found->second)) {
    world_.drained.insert(found->second);
  }
  const auto found = undrains_.find(reply.request);
  if (found == undrains_.end()) return;
  world_.undrained.insert(found->second);
  for (const auto& host : world_.hosts) {
    if (host->name == found->second) host->away = false;  // it must do without having been off the list
  }
}

// Shuts down as the real one does: agents end their workers and themselves; what remains is killed.
void SupervisorProcess::perform(const core::EndRun& action) {
  world_.lose_what_is_away();
  world_.exit_status = action.exit_status;
  world_.exit_reason = action.reason;
  closing_ = true;
  const auto grace = world_.setup.settings.grace;
  for (auto& [id, entry] : entries_) {
    if (entry.connection && !std::exchange(entry.stopping, true)) {
      send(id, StopAgent{static_cast<std::uint64_t>(grace.count())});
    } else if (!entry.connection && entry.launched_here) {
      world_.forget(id);
    }
  }
  world_.queue.after(grace + Millis(3'000), [this, life = std::weak_ptr(life_)] {
    if (life.expired()) return;
    for (auto& [id, entry] : entries_) {
      if (entry.launched_here) world_.forget(id);
      if (entry.connection) std::exchange(entry.connection, nullptr)->down.close(true);
    }
    crashed_ = true;
    life_ = std::make_shared<char>();
  });
}

}  // namespace elastictrain::simulation
