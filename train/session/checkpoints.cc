#include "train/session/checkpoints.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/names.h"
#include "train/session/control_plane.h"

namespace elastictrain::session {
namespace {

// Without a launcher there are no generations; in checkpoints they count from one.
Generation counted_from_one(Generation generation) {
  return std::max<Generation>(generation, 1);
}

// Begins with the step.
std::string reason_of(const checkpoint::Loaded& loaded, const std::string& directory, std::size_t skipped) {
  const std::string which = skipped == 0 ? "the newest"
                                         : "the newest one that can be used; " + std::to_string(skipped) +
                                               (skipped == 1 ? " newer one is" : " newer ones are") + " skipped";
  return std::to_string(loaded.manifest.progress.committed_step) + " in " + directory + " (" + which + ")";
}

}  // namespace

void Checkpoints::open() {
  const auto& environment = parts_.environment;
  if (environment.checkpoint_directory.empty()) return;
  checkpointer_ =
      std::make_unique<checkpoint::Checkpointer>(checkpoint::Settings{.directory = environment.checkpoint_directory,
                                                                      .client = environment.checkpoint_client,
                                                                      .keep = environment.checkpoint_keep,
                                                                      .run = environment.job_id,
                                                                      .host = environment.node,
                                                                      .finish_timeout = environment.checkpoint_timeout},
                                                 parts_.buffers);
}

void Checkpoints::resume() {
  if (!checkpointer_ || parts_.assignment.rank != 0) return;
  const auto& environment = parts_.environment;
  const auto& reports = parts_.reports;
  const checkpoint::Store store(environment.checkpoint_directory, environment.checkpoint_client);
  if (!environment.resume) return start_unrelated(store);
  std::vector<std::string> skipped;
  const checkpoint::Adapter others = adapter();
  const auto loaded = store.load_newest(parts_.buffers, parts_.run_progress.sample_count(), environment.lineage,
                                        skipped, parts_.on_other_layout ? &others : nullptr);
  for (const auto& text : skipped) reports.tell(protocol::kCheckpointSkipped, text);
  if (loaded) {
    parts_.run_progress.resume(loaded->manifest.progress);
    parts_.early.resume(loaded->manifest.early);
    parts_.attachments.resume(loaded->manifest.attachments);
    resumed_step_ = parts_.run_progress.committed_step();
    const std::uint64_t count = loaded->manifest.sample_count;
    is_counted_anew_ = count != 0 && count != parts_.run_progress.sample_count();
    if (*resumed_step_ < environment.saved_step) {
      reports.tell(protocol::kCheckpointSkipped, "that of step " + std::to_string(environment.saved_step) +
                                                     ", which this run wrote, is not in " + store.place());
    }
    reports.tell(protocol::kCheckpointResumed, reason_of(*loaded, store.place(), skipped.size()));
    return begin_beyond(loaded->newest_generation);
  }
  if (loaded.error().code != ErrorCode::kUnavailable) parts_.lifecycle.fail<CheckpointError>(loaded.error().message);
  if (environment.saved_step != 0) {
    parts_.lifecycle.fail<CheckpointError>(
        loaded.error().message + ", where this run wrote that of step " + std::to_string(environment.saved_step) +
        ": mount the directory or restore its files; to begin at the first step: elastictrain run "
        "--resume NAME --fresh");
  }
  reports.tell(protocol::kCheckpointNone, loaded.error().message + "; this run starts at its first step");
  if (const auto listing = store.list()) begin_beyond(listing->newest_generation);
}

checkpoint::Adapter Checkpoints::adapter() const {
  return {.is_other = [this](const auto& manifest) { return is_divided_otherwise(manifest); },
          .take = [this](auto& manifest, auto header, auto data) { return take_other(manifest, header, data); }};
}

bool Checkpoints::is_divided_otherwise(const checkpoint::Manifest& manifest) const {
  const auto& own = parts_.early.values();
  return std::ranges::any_of(manifest.early, [&](const state::EarlyValue& then) {
    const auto now = std::ranges::find(own, then.name, &state::EarlyValue::name);
    return then.name.ends_with(parts_.division) && now != own.end() && *now != then;
  });
}

Status Checkpoints::take_other(checkpoint::Manifest& manifest, std::string_view header,
                               std::span<const std::byte> data) const {
  const std::string text = checkpoint::to_json(manifest);
  auto& progress = manifest.progress;
  OtherLayout other{.manifest = text,
                    .header = header,
                    .data = data,
                    .samples_used = progress.samples_used,
                    .epoch = progress.sampler.epoch,
                    .cursor = progress.sampler.cursor};
  std::deque<std::vector<std::byte>> beside;  // for state that the program fills here, and its port copies
  for (const auto& buffer : parts_.buffers.buffers()) {
    const bool is_here = buffer.port == nullptr;
    if (!is_here) {
      beside.emplace_back(buffer.bytes);
      if (auto copied = buffer.port->read(buffer.data, beside.back()); !copied) return copied;
    }
    other.state.push_back({buffer.name, {is_here ? buffer.data : beside.back().data(), buffer.bytes}});
  }
  parts_.on_other_layout(other);
  if (!other.refusal.empty()) return Error{ErrorCode::kInvalid, other.refusal};
  for (const auto& buffer : parts_.buffers.buffers()) {
    if (buffer.port == nullptr) continue;
    if (auto copied = buffer.port->write(buffer.data, beside.front()); !copied) return copied;
    beside.pop_front();
  }
  progress.samples_used = other.samples_used;
  progress.sampler = {.seed = progress.sampler.seed, .epoch = other.epoch, .cursor = other.cursor, .returned = {}};
  for (const auto& [first, count] : other.returned) progress.sampler.returned.push_back({first, count});
  if (!state::is_well_formed(progress.sampler)) return Error{ErrorCode::kInvalid, "the place in the data is none"};
  manifest.early.clear();
  for (auto& [name, bytes] : other.early) manifest.early.push_back({name, std::move(bytes)});
  manifest.attachments.clear();
  for (auto& [name, bytes] : other.attachments) manifest.attachments.push_back({name, std::move(bytes)});
  return {};
}

void Checkpoints::start_unrelated(const checkpoint::Store& store) {
  const auto listing = store.list();
  if (!listing) return parts_.reports.tell(protocol::kCheckpointFailed, listing.error().message);
  if (listing->any) {
    parts_.reports.tell(protocol::kCheckpointUnused,
                        "this run starts at its first step and leaves the checkpoints in " + store.place() +
                            " unchanged; to continue from the newest, set checkpoint.resume");
  }
  begin_beyond(listing->newest_generation);
}

// A run that counts its generations from one again must not look older than the checkpoint it found.
void Checkpoints::begin_beyond(Generation newest_generation) {
  earlier_exist_ = newest_generation != 0;
  const Generation base = parts_.run_progress.progress().generation_base;
  if (base + counted_from_one(parts_.assignment.generation) <= newest_generation) {
    parts_.run_progress.set_generation_base(newest_generation);
  }
}

void Checkpoints::enter(const std::vector<protocol::Fence>& lineage, bool announce) {
  if (!checkpointer_) return;
  const auto& run_progress = parts_.run_progress;
  checkpointer_->enter({counted_from_one(parts_.assignment.generation), run_progress.next_step()}, lineage,
                       run_progress.progress().generation_base, announce && parts_.assignment.rank == 0);
}

void Checkpoints::enter_first(const std::vector<protocol::Fence>& lineage) {
  enter(lineage, earlier_exist_);
  if (!checkpointer_ || !earlier_exist_ || parts_.assignment.rank != 0) return;
  if (parts_.plane != nullptr) parts_.plane->checkpoint_begins();
  if (!checkpointer_->settle()) {
    parts_.reports.tell(protocol::kCheckpointLate,
                        "the fence of generation " + std::to_string(parts_.assignment.generation) +
                            " was not written within checkpoint.timeout_ms; training begins");
  }
  report_notes();
  if (parts_.plane != nullptr) parts_.plane->checkpoint_ends();
}

checkpoint::Snapshot Checkpoints::snapshot() {
  const Step step = parts_.run_progress.committed_step();
  const auto& attached = parts_.attachments.of(step);
  if (attached.empty() && parts_.attachments.is_used() && std::exchange(unattached_, step) != step) {
    parts_.reports.tell(protocol::kCheckpointUnattached,
                        "the checkpoint of step " + std::to_string(step) +
                            " lacks what the program attaches to others: nothing was attached to this step");
  }
  return {.generation = counted_from_one(parts_.assignment.generation),
          .world_size = parts_.assignment.world_size(),
          .sample_count = parts_.run_progress.sample_count(),
          .progress = parts_.run_progress.progress(),
          .early = parts_.early.values(),
          .attachments = attached};
}

bool Checkpoints::is_due(Step committed, Step steps) const {
  const auto every = parts_.environment.checkpoint_every;
  return checkpointer_ && every != 0 && committed % every < steps;
}

void Checkpoints::step_committed(Step steps) {
  if (!checkpointer_) return;
  report_notes();
  if (is_due(parts_.run_progress.committed_step(), steps)) begin();
}

void Checkpoints::begin() {
  begun_step_ = parts_.run_progress.committed_step();
  parts_.audits.report();  // a run that continues from this checkpoint counts these records
  if (parts_.assignment.rank == 0) checkpointer_->begin(snapshot());
}

void Checkpoints::begin_by_first_rank() {
  if (checkpointer_ && begun_step_ != parts_.run_progress.committed_step() && !is_resumed_here()) begin();
}

void Checkpoints::write_by_first_rank() {
  if (parts_.assignment.rank == 0) write();
}

void Checkpoints::write() {
  if (!checkpointer_ || is_resumed_here()) return;
  if (parts_.plane != nullptr) parts_.plane->checkpoint_begins();
  parts_.audits.report();
  checkpointer_->finish(snapshot());
  report_notes();
  if (parts_.plane != nullptr) parts_.plane->checkpoint_ends();
}

void Checkpoints::await_copy() {
  if (checkpointer_) checkpointer_->await_copy();
}

void Checkpoints::close() {
  if (!checkpointer_) return;
  checkpointer_->settle();
  report_notes();
  checkpointer_.reset();
}

void Checkpoints::report_notes() {
  for (const auto& note : checkpointer_->take_notes()) parts_.reports.tell(note.key, note.text);
}

}  // namespace elastictrain::session
