// Purpose: writes checkpoints while training continues. At a step boundary the training thread calls begin(). A thread
// of this class copies the state, which does not change before the next update, and then writes the copy. Training
// therefore waits only if the copy takes longer than the next pass.
//
// Ownership: borrows the buffers; owns the copy and reuses it. Thread: the session's training thread, except for the
// one internal thread. Failure: never an error of training; notes report it, and the next due step tries again. A disk
// that does not respond costs the deadline at the end, and nothing before.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "train/checkpoint/store.h"

namespace elastictrain::checkpoint {

struct Settings {
  std::string directory;
  Client client;  // of a directory that is none of a file system
  std::size_t keep = 3;
  std::string run;
  std::string host;
  std::chrono::milliseconds finish_timeout{60'000};
};

// The content of a checkpoint besides the state. The generation is the worker's own; the base is in the progress.
struct Snapshot {
  Generation generation = 0;
  std::uint32_t world_size = 0;
  std::uint64_t sample_count = 0;
  state::Progress progress;
  std::vector<state::EarlyValue> early = {};
  std::vector<state::EarlyValue> attachments = {};
};

struct Note {
  std::string key;  // of supervisor/protocol/names.h: written, failed, late, fenced out
  std::string text;
};

class Checkpointer {
 public:
  Checkpointer(Settings settings, const state::StateBuffers& buffers);
  // Abandons an unfinished write; settle() waits for it.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // An assignment is taken. `fence`: its generation and its first step; `lineage`: those of the generations before. All
  // in the run's own numbers. `announce`: also write the fence to the directory, so that a worker that was cut off is
  // fenced out at once.
  void enter(Fence fence, Lineage lineage, Generation generation_base, bool announce);

  // Does nothing but add a note while the previous checkpoint is still being written.
  void begin(const Snapshot& snapshot);
  // Call it before the state changes. Cheap if no copy is in progress; never waits for the disk.
  void await_copy();

  // Writes this checkpoint and waits for it, unless it is already on the disk.
  void finish(const Snapshot& snapshot);

  // Waits, up to the timeout, for the write in progress. Whether it is over.
  bool settle();

  std::vector<Note> take_notes();

 private:
  struct Shared;
  void start_thread();
  bool await_idle(std::chrono::steady_clock::time_point deadline);
  void submit(const Snapshot& snapshot, bool copied);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace elastictrain::checkpoint
