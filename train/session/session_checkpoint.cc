// When the session saves its state, what it starts from, and which of its checkpoints count. train/checkpoint/ writes
// them.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "train/session/session_impl.h"

namespace elastictrain {
namespace {

// Without a launcher there are no generations; in checkpoints they count from one.
Generation counted(Generation generation) {
  return std::max<Generation>(generation, 1);
}

}  // namespace

void Session::Impl::open_checkpointer() {
  if (environment_.checkpoint_directory.empty()) return;
  checkpointer_ = std::make_unique<checkpoint::Checkpointer>(
      checkpoint::Settings{.directory = environment_.checkpoint_directory,
                           .keep = environment_.checkpoint_keep,
                           .run = environment_.job_id,
                           .host = environment_.node,
                           .finish_timeout = environment_.checkpoint_timeout},
      buffers_);
}

// For rank 0 of a first generation and a worker without a launcher: continues from the newest checkpoint, or starts
// without touching existing ones.
void Session::Impl::resume_from_checkpoint() {
  if (!checkpointer_ || seat_.rank != 0) return;
  const checkpoint::Store store(environment_.checkpoint_directory);
  if (!environment_.resume) {
    const auto listing = store.list();
    if (!listing) return tell("checkpoint_failed", listing.error().message);
    if (listing->any) {
      tell("checkpoint_unused", "this run starts at its first step and leaves the checkpoints in " + store.directory() +
                                    " unchanged; to continue from the newest, set checkpoint.resume");
    }
    return begin_beyond(listing->newest_generation);
  }
  std::vector<std::string> skipped;
  const auto loaded = store.load_newest(buffers_, data_.sample_count, environment_.lineage, skipped);
  for (const auto& text : skipped) tell("checkpoint_skipped", text);
  if (loaded) {
    const auto learning_rate = progress_.learning_rate;  // for this run's size, not the size at the checkpoint
    progress_ = loaded->manifest.progress;
    progress_.learning_rate = learning_rate;
    resumed_step_ = progress_.committed_step;
    return begin_beyond(loaded->newest_generation);
  }
  if (loaded.error().code != ErrorCode::kUnavailable) fail(loaded.error().message);
  tell("checkpoint_none", loaded.error().message + "; this run starts at its first step");
  if (const auto listing = store.list()) begin_beyond(listing->newest_generation);
}

// A run that counts its generations from one again must not look older than the checkpoint it found.
void Session::Impl::begin_beyond(Generation newest_generation) {
  earlier_checkpoints_ = newest_generation != 0;
  if (progress_.generation_base + counted(seat_.generation) <= newest_generation) {
    progress_.generation_base = newest_generation;
  }
}

void Session::Impl::enter_lineage(Generation generation, Step first_step, const std::vector<protocol::Fence>& lineage,
                                  bool announce) {
  if (!checkpointer_) return;
  checkpointer_->enter({counted(generation), first_step}, lineage, progress_.generation_base,
                       announce && seat_.rank == 0);
}

checkpoint::Snapshot Session::Impl::snapshot() const {
  return {.generation = counted(seat_.generation),
          .world_size = seat_.world_size(),
          .sample_count = data_.sample_count,
          .progress = progress_};
}

void Session::Impl::checkpoint_if_due() {
  if (!checkpointer_) return;
  tell_checkpoints();
  const auto every = environment_.checkpoint_every;
  if (every == 0 || progress_.committed_step % every != 0) return;
  tell_audits();  // a run that continues from this checkpoint counts these records
  if (seat_.rank == 0) checkpointer_->begin(snapshot());
}

void Session::Impl::checkpoint() {
  if (seat_.rank == 0) write_checkpoint();
}

// The last checkpoint: training waits for it.
void Session::Impl::write_checkpoint() {
  if (!checkpointer_ || resumed_step_ == progress_.committed_step) return;
  if (plane_) plane_->checkpoint_begins();
  tell_audits();
  checkpointer_->finish(snapshot());
  tell_checkpoints();
  if (plane_) plane_->checkpoint_ends();
}

void Session::Impl::await_checkpoint_copy() {
  if (checkpointer_) checkpointer_->await_copy();
}

void Session::Impl::tell_checkpoints() {
  for (const auto& note : checkpointer_->take_notes()) tell(note.key, note.text);
}

void Session::Impl::tell(const std::string& key, const std::string& text) {
  if (plane_) {
    plane_->send(protocol::WorkerNote{key, text});
  } else {
    std::fprintf(stderr, "elastictrain: %s: %s\n", key.c_str(), text.c_str());
  }
}

}  // namespace elastictrain
