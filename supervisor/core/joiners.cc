#include "supervisor/core/joiners.h"

#include <algorithm>

#include "supervisor/core/audit.h"
#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/state_difference.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::core {
namespace {

std::string text(bool value) {
  return value ? "true" : "false";
}
std::string text(std::uint64_t value) {
  return std::to_string(value);
}

// Workers that divide their data in another way would skip samples and repeat others, or end at another step.
std::optional<std::string> division_mismatch(const protocol::WorkerReady& joiner, const protocol::WorkerReady& run) {
  const auto differs = [](const char* option, auto mine, auto theirs) {
    return "has the data option " + std::string(option) + " = " + text(mine) + ", the rest of the run " + text(theirs) +
           ": every worker must divide the data in the same way";
  };
  if (joiner.epochs != run.epochs) return differs("epochs", joiner.epochs, run.epochs);
  if (joiner.max_steps != run.max_steps) return differs("max_steps", joiner.max_steps, run.max_steps);
  if (joiner.batch_of_all != run.batch_of_all) return differs("batch_of_all", joiner.batch_of_all, run.batch_of_all);
  const protocol::DataDivision& mine = joiner.division;
  const protocol::DataDivision& theirs = run.division;
  if (!mine.is_known || !theirs.is_known) return std::nullopt;
  if (mine.seed != theirs.seed) return differs("seed", mine.seed, theirs.seed);
  if (mine.shuffle != theirs.shuffle) return differs("shuffle", mine.shuffle, theirs.shuffle);
  if (mine.drop_last != theirs.drop_last) return differs("drop_last", mine.drop_last, theirs.drop_last);
  if (mine.min_local_samples != theirs.min_local_samples)
    return differs("min_local_samples", std::uint64_t{mine.min_local_samples}, std::uint64_t{theirs.min_local_samples});
  if (mine.batches_per_step == theirs.batches_per_step) return std::nullopt;
  return differs("batches_per_step", std::uint64_t{mine.batches_per_step}, std::uint64_t{theirs.batches_per_step});
}

}  // namespace

Joiners::Joiners(RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired, Startup& startup,
                 const Training& training, Change& change, Audit& audit, WorkerControl& workers)
    : settings_(settings),
      roster_(roster),
      out_(out),
      desired_(desired),
      startup_(startup),
      training_(training),
      change_(change),
      audit_(audit),
      workers_(workers) {}

void Joiners::on_message(Worker& worker, const protocol::WorkerHello& message) {
  if (worker.greeted() || worker.dying()) return;
  worker.contact = Contact::kHello;
  out_.journal(record::Hello{worker.id, message.pid, message.library_version});
  if (message.protocol_version != limits::kProtocolVersion) {
    workers_.expel_joiner(worker.id, "speaks protocol " + std::to_string(message.protocol_version) + " (library " +
                                         message.library_version + "), not " +
                                         std::to_string(limits::kProtocolVersion) +
                                         ": build the program against this version's library");
    return;
  }
  if (startup_.elastic) return;
  startup_.elastic = true;
  out_.look_again();
  for (auto& [id, other] : roster_.workers()) {
    if (!other.ready() && !other.seated() && !other.dying()) workers_.expect_ready(other);
  }
}

void Joiners::on_message(Worker& worker, const protocol::WorkerReady& message) {
  if (worker.ready() || worker.dying() || !worker.greeted()) return;
  if (const auto why = mismatch(message)) {
    workers_.expel_joiner(worker.id, *why);
    return;
  }
  if (!reference_) take_reference(message);
  worker.contact = Contact::kReady;
  worker.facts = message;
  worker.facts.state_items.clear();  // only those of the reference are needed
  if (worker.started_at != Instant{} && !worker.was_warm) {
    startup_.newest_start = std::chrono::duration_cast<Millis>(out_.now() - worker.started_at);
  }
  out_.cancel(worker.timer);
  out_.journal(record::Ready{worker.id, message.state_bytes});
  const bool counted = change_.stage == Stage::kGathering && change_.plans(worker.id);
  // With thousands of joiners only the last one is worth a look at the whole plan.
  if (!counted || --change_.not_ready == 0) out_.look_again();
}

// The first worker speaks for the program. A run that trains keeps the batch that it has.
void Joiners::take_reference(const protocol::WorkerReady& message) {
  reference_ = message;
  audit_.ledger().set_sample_count(message.sample_count);
  const std::uint32_t batch = batch_of(message);
  if (batch == 0 || training_.generation != 0 || desired_.update.program_batch == batch) return;
  UpdatePlan of_program{.per_worker = desired_.update.per_worker, .program_batch = batch};
  if (message.batch_of_all && settings_.batch_of_program) of_program.program_max_global = batch;
  desired_.apply(of_program, settings_);
  record::PlanUpdated updated;
  write_update(desired_.update, updated);
  out_.journal(std::move(updated));
  out_.look_again();
}

std::uint32_t Joiners::batch_of(const protocol::WorkerReady& message) const {
  if (settings_.batch_of_program) return message.batch;
  const std::uint64_t batches = message.division.batches_per_step;
  if (batches <= 1) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(settings_.batch_of_user * batches, limits::kMaxBatch));
}

std::optional<std::string> Joiners::batch_mismatch(const protocol::WorkerReady& message) const {
  const auto known = desired_.update.program_batch;
  const bool is_first = !reference_ && training_.generation == 0;
  const bool asks = settings_.batch_of_program && message.batch != 0;
  if (!asks || !known || message.batch == *known || is_first) return std::nullopt;
  return "asks for a batch of " + counted(message.batch, "sample") + ", the rest of the run for " +
         std::to_string(*known) + ": every worker must ask for the same, or start the run with --batch";
}

std::optional<std::string> Joiners::mismatch(const protocol::WorkerReady& message) const {
  if (const auto why = batch_mismatch(message)) return why;
  if (!reference_) return std::nullopt;
  if (message.state_layout_hash != reference_->state_layout_hash || message.state_bytes != reference_->state_bytes) {
    return "shares different state than the rest of the run (" + std::to_string(message.state_bytes) +
           " bytes instead of " + std::to_string(reference_->state_bytes) +
           "): " + first_difference(message.state_items, reference_->state_items) +
           ". Every worker must run the same program";
  }
  if (message.sample_count != reference_->sample_count) {
    return "has " + counted(message.sample_count, "sample") + " for each epoch, the rest of the run " +
           std::to_string(reference_->sample_count) + ": every worker must see the same data";
  }
  return division_mismatch(message, *reference_);
}

// A member that has just joined does not know it yet.
void Joiners::on_message(Worker& worker, const protocol::WorkerAsksEpoch& /*message*/) {
  const auto& members = training_.members;
  const auto known = std::find_if(members.begin(), members.end(), [this](WorkerId id) {
    const Worker* member = roster_.worker(id);
    return member != nullptr && member->heartbeat.generation != 0;
  });
  const std::uint64_t epoch = known == members.end() ? 0 : roster_.worker(*known)->heartbeat.epoch;
  out_.send({worker.id}, protocol::RunEpoch{epoch});
}

void Joiners::on(const WorkerSpawnFailed& event) {
  const Worker* found = roster_.worker(event.worker);
  if (found == nullptr) return;
  const Worker worker = *found;
  out_.journal(record::SpawnFailed{worker.id, event.reason});
  workers_.remove(worker.id);
  const bool is_program = event.program_status != 0;
  if (is_program) startup_.program_status = event.program_status;
  if (worker.dying()) return;
  workers_.drop_joiner(worker, "could not be started: " + event.reason, is_program ? Retry::kNever : Retry::kOnce);
}

}  // namespace elastictrain::core
