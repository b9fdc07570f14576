#include "train/checkpoint/checkpointer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "supervisor/protocol/names.h"
#include "train/checkpoint/files.h"

namespace elastictrain::checkpoint {

struct FreeAligned {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;

namespace {

constexpr std::chrono::seconds kReportedEvery{5};

// Uninitialized memory; null if memory is short. In huge pages if available: the first copy takes one fault for each
// page.
AlignedBytes aligned_bytes(std::uint64_t bytes) {
  constexpr std::size_t kHugePage = 2 << 20;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kDirectAlignment;
  const std::size_t size = (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
  AlignedBytes found(static_cast<std::byte*>(std::aligned_alloc(alignment, std::max(size, alignment))));
  if (found && alignment == kHugePage) ::madvise(found.get(), size, MADV_HUGEPAGE);
  return found;
}

}  // namespace

// Outlives the Checkpointer if a write hangs.
struct Checkpointer::Shared {
  Shared(Settings given, const state::StateBuffers& state)
      : settings(std::move(given)), store(settings.directory, settings.client), buffers(&state) {}

  struct FenceJob {
    FenceRecord record;
    Writer writer;
  };

  // The last good checkpoint that was reported; nothing after a failure.
  struct Reported {
    Step step = 0;
    std::chrono::steady_clock::time_point at;
  };

  // A snapshot that is being written to the disk.
  struct Job {
    Snapshot snapshot;
    bool copied = false;  // its state is in `copy`
  };

  void run();
  Status copy_state();
  Status write(const Snapshot& snapshot);
  void write_fence(const FenceJob& fence);
  void tell_failure(const Snapshot& snapshot, const Error& error);
  Writer writer(Generation generation) const { return {generation, settings.host, ::getpid()}; }
  void note(std::string_view key, std::string text);
  void tell_written(Step step);
  void tell_written_if_due(Step step);

  const Settings settings;
  const Store store;
  const state::StateBuffers* buffers;

  // Used by the thread that copies, then by the one that writes.
  AlignedBytes copy;
  std::uint64_t copy_bytes = 0;
  std::uint64_t layout_hash = 0;
  std::vector<Tensor> tensors;

  std::atomic<bool> copying{false};
  std::atomic<bool> has_notes{false};

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Job> job;
  std::optional<FenceJob> fence_job;
  Lineage lineage;       // with the base
  bool busy = false;     // with a copy or a write
  bool writing = false;  // a snapshot
  bool stopping = false;
  std::optional<Snapshot> written;  // the last one
  std::optional<Reported> reported;
  std::vector<Note> notes;
};

void Checkpointer::Shared::note(std::string_view key, std::string text) {
  const std::lock_guard lock(mutex);
  notes.push_back({std::string(key), std::move(text)});
  has_notes = true;
}

Status Checkpointer::Shared::copy_state() {
  const auto bytes = buffers->total_bytes();
  if (!copy || copy_bytes != bytes) {
    copy.reset();
    copy = aligned_bytes(bytes);
    copy_bytes = bytes;
    layout_hash = buffers->layout_hash();
    tensors = tensors_of(*buffers);
  }
  Status status;
  std::uint64_t offset = 0;
  for (const auto* buffer : in_file_order(*buffers)) {
    const state::Piece piece{buffer->data, buffer->bytes, buffer->port};
    if (status && buffer->bytes != 0 && copy) status = piece.read({copy.get() + offset, buffer->bytes});
    offset += buffer->bytes;
  }
  copying = false;
  copying.notify_all();
  return status;
}

Status Checkpointer::Shared::write(const Snapshot& snapshot) {
  if (!copy) return Error{ErrorCode::kIo, "no memory for a copy of " + std::to_string(copy_bytes) + " bytes of state"};
  Manifest manifest;
  manifest.identity = {snapshot.progress.generation_base + snapshot.generation, snapshot.progress.committed_step};
  manifest.run = settings.run;
  manifest.library_version = ELASTICTRAIN_VERSION;
  manifest.world_size = snapshot.world_size;
  manifest.sample_count = snapshot.sample_count;
  manifest.progress = snapshot.progress;
  manifest.early = snapshot.early;
  manifest.attachments = snapshot.attachments;
  manifest.layout_hash = layout_hash;
  {
    const std::lock_guard lock(mutex);
    manifest.lineage = lineage;
  }
  const auto header =
      encode_tensor_header(tensors, {{"format", "elastictrain"}, {"step", std::to_string(manifest.identity.step)}});
  if (!header) return header.error();
  const auto self = writer(manifest.identity.generation);
  auto status = store.write(manifest, *header, {copy.get(), copy_bytes}, self);
  // Also after a failure: files that others left unfinished may be what fills the disk.
  store.clean_up(settings.keep, snapshot.progress.generation_base, self);
  return status;
}

void Checkpointer::Shared::write_fence(const FenceJob& fence) {
  const auto status = store.write_fence(fence.record, fence.writer);
  if (!status)
    note(protocol::kCheckpointFailed, "the fence of generation " + std::to_string(fence.record.fence.generation) +
                                          " was not written: " + status.error().message);
}

void Checkpointer::Shared::tell_failure(const Snapshot& snapshot, const Error& error) {
  {
    const std::lock_guard lock(mutex);
    reported.reset();
  }
  const std::string what = "step " + std::to_string(snapshot.progress.committed_step) + ": " + error.message;
  if (error.code == ErrorCode::kRefused) return note(protocol::kCheckpointFencedOut, what);
  note(protocol::kCheckpointFailed, what + "; training continues, and the next checkpoint is tried when it is due");
}

void Checkpointer::Shared::tell_written(Step step) {
  {
    const std::lock_guard lock(mutex);
    if (reported && reported->step == step) return;
    reported = Reported{step, std::chrono::steady_clock::now()};
  }
  note(protocol::kCheckpointWritten, std::to_string(step));
}

// Seldom, because each note is a line of the journal.
void Checkpointer::Shared::tell_written_if_due(Step step) {
  if (!reported || std::chrono::steady_clock::now() - reported->at >= kReportedEvery) tell_written(step);
}

void Checkpointer::Shared::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return job || fence_job || stopping; });
    if (!job && !fence_job) return;
    const auto next = std::exchange(job, std::nullopt);
    const auto fence = std::exchange(fence_job, std::nullopt);
    lock.unlock();
    Status status = next && !next->copied ? copy_state() : Status();
    if (fence) write_fence(*fence);
    if (next && status) status = write(next->snapshot);
    if (!status) tell_failure(next->snapshot, status.error());
    if (next && status) tell_written_if_due(next->snapshot.progress.committed_step);
    lock.lock();
    if (next) writing = false;
    if (next && status) written = next->snapshot;
    busy = job.has_value() || fence_job.has_value();
    changed.notify_all();
  }
}

Checkpointer::Checkpointer(Settings settings, const state::StateBuffers& buffers)
    : shared_(std::make_shared<Shared>(std::move(settings), buffers)) {}

Checkpointer::~Checkpointer() {
  if (!thread_.joinable()) return;
  await_copy();
  const bool idle = await_idle(std::chrono::steady_clock::now());
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->changed.notify_all();
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Checkpointer::start_thread() {
  if (!thread_.joinable()) thread_ = std::thread([shared = shared_] { shared->run(); });
}

bool Checkpointer::await_idle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_until(lock, deadline, [&] { return !shared_->busy; });
}

void Checkpointer::enter(Fence fence, Lineage lineage, Generation generation_base, bool announce) {
  lineage.push_back(fence);
  for (auto& earlier : lineage) earlier.generation += generation_base;
  fence.generation += generation_base;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->lineage = merge(shared_->lineage, lineage);
    if (!announce) return;
    shared_->fence_job =
        Shared::FenceJob{{fence, shared_->lineage, shared_->settings.run}, shared_->writer(fence.generation)};
    shared_->busy = true;
  }
  start_thread();
  shared_->changed.notify_all();
}

void Checkpointer::submit(const Snapshot& snapshot, bool copied) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->job = Shared::Job{snapshot, copied};
    shared_->busy = true;
    shared_->writing = true;
    shared_->copying = !copied;
  }
  start_thread();
  shared_->changed.notify_all();
}

void Checkpointer::begin(const Snapshot& snapshot) {
  bool busy = false;
  bool writing = false;
  {
    const std::lock_guard lock(shared_->mutex);
    busy = shared_->busy;
    writing = shared_->writing;
  }
  if (!busy) return submit(snapshot, false);
  if (!writing) {
    // A fence is being written, which may take any time on this disk.
    const Status copied = shared_->copy_state();
    return copied ? submit(snapshot, true) : shared_->tell_failure(snapshot, copied.error());
  }
  shared_->note(protocol::kCheckpointLate,
                "step " + std::to_string(snapshot.progress.committed_step) +
                    ": the previous checkpoint is still being written; write them less often");
}

void Checkpointer::await_copy() {
  shared_->copying.wait(true);
}

void Checkpointer::finish(const Snapshot& snapshot) {
  const auto is_written = [&] {
    const std::lock_guard lock(shared_->mutex);
    const auto& last = shared_->written;
    return last && last->generation == snapshot.generation &&
           last->progress.committed_step == snapshot.progress.committed_step;
  };
  const auto deadline = std::chrono::steady_clock::now() + shared_->settings.finish_timeout;
  bool idle = await_idle(deadline);
  if (idle && !is_written()) {
    submit(snapshot, false);
    await_copy();
    idle = await_idle(deadline);
  }
  if (idle && is_written()) shared_->tell_written(snapshot.progress.committed_step);
  if (idle) return;
  shared_->note(protocol::kCheckpointFailed,
                "step " + std::to_string(snapshot.progress.committed_step) + ": the write was not complete within " +
                    std::to_string(shared_->settings.finish_timeout.count()) + " ms (checkpoint.timeout_ms)");
}

bool Checkpointer::settle() {
  return await_idle(std::chrono::steady_clock::now() + shared_->settings.finish_timeout);
}

std::vector<Note> Checkpointer::take_notes() {
  if (!shared_->has_notes.exchange(false)) return {};
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->notes, {});
}

}  // namespace elastictrain::checkpoint
