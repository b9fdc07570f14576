// The part of the state machine that manages workers: how they start, what they report, how they end.
#include <algorithm>
#include <set>

#include "supervisor/core/membership_impl.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/note_keys.h"

namespace elastictrain::core {

std::string Membership::Impl::name_of(const Worker& worker) const {
  const auto& members = newest_members();
  const auto found = std::find(members.begin(), members.end(), worker.id);
  std::string name = to_string(worker.id) + " on " + worker.host;
  const auto old_rank = recovery_.ranks.find(worker.id);
  if (old_rank != recovery_.ranks.end()) return "rank " + std::to_string(old_rank->second) + " (" + name + ")";
  if (found != members.end()) name = "rank " + std::to_string(found - members.begin()) + " (" + name + ")";
  return name;
}

// `next` is the membership that the new workers expect; `fresh` lists those of it (or spares after them) to start now.
void Membership::Impl::start_workers(const std::vector<WorkerId>& next, const std::vector<WorkerId>& fresh) {
  std::vector<WorkerId> world = next;
  for (WorkerId id : fresh) {
    if (std::find(next.begin(), next.end(), id) == next.end()) world.push_back(id);
  }
  std::map<std::string, std::uint32_t> on_host;
  std::map<std::string, std::uint32_t> node_rank;
  std::map<WorkerId, SpawnWorker> spawns;
  for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
    const Worker& worker = *roster_.worker(world[rank]);
    const auto node = static_cast<std::uint32_t>(node_rank.size());
    node_rank.try_emplace(worker.host, node);
    spawns[worker.id] = {.worker = worker.id,
                         .agent = worker.agent,
                         .host = worker.host,
                         .slot = worker.slot,
                         .slots = roster_.agent(worker.agent)->slots,
                         .rank = rank,
                         .local_rank = on_host[worker.host]++,
                         .world_size = 0,
                         .local_world_size = 0,
                         .node_rank = node_rank[worker.host]};
  }
  for (WorkerId id : fresh) {
    Worker& worker = *roster_.worker(id);
    SpawnWorker spawn = spawns[id];
    spawn.world_size = std::max<std::uint32_t>(static_cast<std::uint32_t>(next.size()), spawn.rank + 1);
    spawn.local_world_size = on_host[worker.host];
    if (restarting_ && settings_.has_checkpoints) {
      spawn.from_checkpoint = true;
      spawn.lineage = lineage_;
    }
    worker.expected_rank = spawn.rank;
    journal(record::Spawn{id, worker.host, worker.agent, worker.slot});
    emit(spawn);
    if (elastic_) expect_ready(worker);
  }
}

void Membership::Impl::expect_ready(Worker& worker) {
  worker.timer = arm({TimerKind::kReady, worker.id, {}}, now_ + settings_.ready_timeout);
}

void Membership::Impl::expect_exit(Worker& worker) {
  worker.dying = true;
  cancel(worker.timer);
  worker.timer = arm({TimerKind::kLeave, worker.id, {}}, now_ + settings_.grace);
}

void Membership::Impl::on(const WorkerSaid& event) {
  // An account counts whichever agent delivers it: an agent that was away may deliver that of a worker that has exited.
  if (const auto* audit = std::get_if<protocol::WorkerAudit>(&event.message)) {
    report_audit(event.worker, ledger_.record(event.worker, *audit));
    if (accounts_timer_ != 0) dirty_ = true;
    return;
  }
  Worker* worker = roster_.worker(event.worker);
  if (worker == nullptr) return;
  std::visit([&](const auto& message) { said(*worker, message); }, event.message);
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerHello& message) {
  if (worker.hello || worker.dying) return;
  worker.hello = true;
  journal(record::Hello{worker.id, message.pid, message.library_version});
  if (message.protocol_version != limits::kProtocolVersion) {
    expel_joiner(worker.id, "speaks protocol " + std::to_string(message.protocol_version) + " (library " +
                                message.library_version + "), not " + std::to_string(limits::kProtocolVersion) +
                                ": build the program against this version's library");
    return;
  }
  if (elastic_) return;
  elastic_ = true;
  dirty_ = true;
  for (auto& [id, other] : roster_.workers()) {
    if (!other.ready && !other.seated && !other.dying) expect_ready(other);
  }
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerReady& message) {
  if (worker.ready || worker.dying || !worker.hello) return;
  if (const auto why = mismatch(message)) {
    expel_joiner(worker.id, *why);
    return;
  }
  if (!reference_) {
    reference_ = message;
    ledger_.set_sample_count(message.sample_count);
  }
  worker.ready = true;
  worker.facts = message;
  cancel(worker.timer);
  journal(record::Ready{worker.id, message.state_bytes});
  const auto& planned = change_.members;
  const bool counted =
      change_.stage == Stage::kGathering && std::find(planned.begin(), planned.end(), worker.id) != planned.end();
  // With thousands of joiners only the last one is worth a look at the whole plan.
  if (!counted || --change_.not_ready == 0) dirty_ = true;
}

std::optional<std::string> Membership::Impl::mismatch(const protocol::WorkerReady& message) const {
  if (!reference_) return std::nullopt;
  if (message.state_layout_hash != reference_->state_layout_hash || message.state_bytes != reference_->state_bytes) {
    return "shares different state than the rest of the run (" + std::to_string(message.state_bytes) +
           " bytes instead of " + std::to_string(reference_->state_bytes) +
           ", or different names): every worker must run the same program";
  }
  if (message.sample_count != reference_->sample_count) {
    return "has " + std::to_string(message.sample_count) + " samples for each epoch, the rest of the run " +
           std::to_string(reference_->sample_count) + ": every worker must see the same data";
  }
  return std::nullopt;
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerPrepared& message) {
  if (change_.stage != Stage::kPreparing || message.generation != change_.generation) return;
  if (change_.waiting.erase(worker.id) == 0) return;
  journal(record::Prepared{worker.id, message.generation});
  if (change_.waiting.empty()) commit();
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerPrepareFailed& message) {
  if (change_.stage != Stage::kPreparing || message.generation != change_.generation) return;
  change_.failed.insert(worker.id);
  prepare_failed(name_of(worker) + " could not build the communicator of generation " +
                 std::to_string(message.generation) + ": " + message.reason);
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerActive& message) {
  if (message.generation > issued_) return;
  const bool of_change = change_.stage == Stage::kCommitted && message.generation == change_.generation;
  const bool first = remember_generation(message.generation, message.first_step);
  // What generations before this one used from here on is void; a planned change from one to the next leaves nothing
  // void.
  if (first && (restarting_ || !of_change)) {
    report_audit({}, ledger_.fence({message.generation, message.first_step}));
  }
  const bool awaited = of_change && change_.waiting.erase(worker.id) > 0;
  if (!worker.seated && !worker.finished && !worker.dying) end_stray(worker);
  if (!first && !awaited) return;
  journal(record::Active{worker.id, message.generation, message.first_step, message.state_transfer_bytes});
  if (!awaited) return;
  change_.any_active = true;
  change_.first_step = message.first_step;
  if (change_.waiting.empty()) complete();
}

// It is in a generation, but not according to the previous supervisor, which must have given it up: the order to end it
// was lost.
void Membership::Impl::end_stray(Worker& worker) {
  if (change_.stage == Stage::kPreparing) cancel_change(name_of(worker) + " was given up before");
  worker.dying = worker.stop_sent = worker.hung = true;
  end_for_good(worker);
  dirty_ = true;
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerLeft& message) {
  const bool in_time = change_.stage == Stage::kCommitted && message.generation == change_.generation;
  // Part of a change that a fence has ended since, or that a previous supervisor committed: the worker is gone in any
  // case.
  const bool ended = recovering() ? message.generation <= fence_ : unsettled_ && message.generation <= issued_;
  const bool late = worker.trains() && ended;
  if (in_time ? change_.waiting.erase(worker.id) == 0 : !late) return;
  worker.left = true;
  left_in_order_ = left_in_order_ || end_.mode == EndMode::kDraining;
  journal(record::Left{worker.id, message.generation, message.last_step});
  expect_exit(worker);
  if (late && !in_time) {
    recovery_.waiting.erase(worker.id);
    if (recovering()) recover("");
    return;
  }
  change_.any_active = true;
  if (change_.waiting.empty()) complete();
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerFinished& message) {
  if (worker.finished || worker.left || (!is_member(worker.id) && !in_flight(worker.id))) return;
  worker.finished = true;
  finished_.insert(worker.id);
  hangs_.forget(worker.id);
  journal(record::Finished{worker.id, message.last_step});
  change_.waiting.erase(worker.id);
  recovery_.waiting.erase(worker.id);
  member_finished();
  if (recovering() && change_.stage != Stage::kCommitted) recover("");
}

void Membership::Impl::report_audit(WorkerId worker, const std::vector<std::string>& violations) {
  for (const std::string& violation : violations) {
    journal(record::AuditViolation{worker, violation});
    tell(Tell::Level::kError, "audit: " + violation);
  }
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerNote& message) {
  journal(record::Note{worker.id, message.key, message.value});
  if (message.key == protocol::kTermNote) got_term(worker);
}

void Membership::Impl::on(const WorkerSpawnFailed& event) {
  const Worker* found = roster_.worker(event.worker);
  if (found == nullptr) return;
  const Worker worker = *found;
  journal(record::SpawnFailed{worker.id, event.reason});
  bury(worker.id);
  if (!worker.dying) drop_joiner(worker, "could not be started: " + event.reason, Retry::kOnce);
}

void Membership::Impl::drop_joiner(const Worker& worker, const std::string& why, Retry retry) {
  const std::uint32_t failures = roster_.blame(worker.place(), retry == Retry::kOnce ? 1 : 2);
  if (roster_.is_blamed(worker.place())) {
    const Instant again = now_ + health_.cool_down(failures);
    roster_.rest(worker.place(), again);
    arm({TimerKind::kCooled, {}, {}}, again);
  }
  journal(record::Dropped{worker.id, why});
  tell(Tell::Level::kWarning, "new worker " + to_string(worker.id) + " on " + worker.host + " " + why);
  dirty_ = true;
}

void Membership::Impl::expel_joiner(WorkerId id, const std::string& why) {
  Worker& worker = *roster_.worker(id);
  if (worker.dying) return;
  drop_joiner(worker, why, Retry::kNever);
  stop_worker(worker);
}

void Membership::Impl::dismiss(Worker& worker, const std::string& reason) {
  if (worker.dying) return;
  journal(record::Dismissed{worker.id, reason});
  if (!worker.ready) {
    // It is not listening yet, or not in a place where it would act on messages.
    stop_worker(worker);
    return;
  }
  send({worker.id}, protocol::Dismiss{reason});
  worker.dismissed = true;
  expect_exit(worker);
}

void Membership::Impl::stop_worker(Worker& worker) {
  worker.dying = true;
  if (worker.hung) return;  // its end is in progress
  cancel(worker.timer);
  if (worker.stop_sent) return;
  worker.stop_sent = true;
  emit(StopWorker{worker.id, static_cast<std::uint64_t>(settings_.grace.count())});
}

// The process has exited: remove it everywhere.
void Membership::Impl::bury(WorkerId id) {
  Worker* worker = roster_.worker(id);
  if (worker == nullptr) return;
  cancel(worker->timer);
  change_.waiting.erase(id);
  recovery_.waiting.erase(id);
  hangs_.forget(id);
  to_replace_.erase(id);
  roster_.remove_worker(id);
  dirty_ = true;
}

}  // namespace elastictrain::core
