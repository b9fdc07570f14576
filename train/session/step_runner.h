// Purpose: execution of the open step: the collective of each bucket by its kind, the order of buckets in the
// foreground and the background, and their repetition after a loss.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/session/elsewhere.h"
#include "train/session/extension.h"
#include "train/session/gradients.h"
#include "train/session/model_averaging.h"
#include "train/session/program_collectives.h"
#include "train/session/run_progress.h"
#include "train/session/state_handover.h"
#include "train/session/step_buckets.h"

// Reduces one bucket by the mechanism that its kind and the step need, with what rides on the step's first
// sum: the control lane, the return to equal replicas, and what other components exchange once in each generation.
// Ownership: the worker. Thread: the training thread, or the reducer's. Failure: that of the collective.

namespace elastictrain::session {

class BucketReducer {
 public:
  struct Parts {
    const RunProgress& run_progress;
    HostGradients& host;
    DeviceGradients& device;
    ElsewhereSums& elsewhere;
    ProgramData& own_data;
    ModelAveraging& averaging;
    Extension& extension;
  };
  explicit BucketReducer(const Parts& parts) : parts_(parts) {}

  Status reduce(OpenStep& step, Bucket& bucket);
  // Before a repetition: of a bucket whose sum has not begun, and whose memory is that of an earlier one, into which
  // that one's sum is written again.
  Status keep_input(const OpenStep& step, Bucket& bucket);

 private:
  Status reduce_host_gradient(OpenStep& step, Bucket& bucket);
  Status send_lane(OpenStep& step);
  Status after_first_sum(OpenStep& step);

  const Parts parts_;
};

// The open step, from its division to its end: which buckets it has, which of them are reduced in the
// background, and their repetition after a loss.
//
// Ownership: the worker. Thread: the training thread; buckets in the background are reduced on the reducer's own
// thread. Failure: wait() and reduce() return that of the collective; the step can be repeated then, or discarded.

class StepRunner {
 public:
  struct Parts {
    WorkerId self;
    const Environment& environment;
    const std::uint64_t& variance_every;  // steps; 0: never
    const Assignment& assignment;
    RunProgress& run_progress;
    StateHandover& handover;
    DeviceGradients& device;
    ElsewhereSums& elsewhere;
    ModelAveraging& averaging;
    BucketReducer& reducer;
  };
  explicit StepRunner(const Parts& parts) : parts_(parts) {}

  // Opens the step, or the next batch of a round.
  void open(const RoundPace& pace);
  bool is_open() const { return step_.has_value() && !between_batches_; }
  // Between two batches of a round.
  bool in_round() const { return step_.has_value() && between_batches_; }
  const Round& round() const { return round_; }
  // The batch ends, and the step goes on.
  void end_batch();
  // Where the workers meet: what every rank has used of its share.
  void count_used(std::span<const Claim> claims);
  OpenStep& step() { return *step_; }
  const OpenStep& step() const { return *step_; }
  // Some buckets may still be in the background.
  bool in_background() const { return in_background_; }

  Bucket& add(float* data, std::size_t count) { return step_->add_bucket(data, count); }
  Status reduce(Bucket& bucket);  // nothing in a discarded step
  void submit(Bucket& bucket);    // in the background
  Status wait();                  // until the sums of all that were submitted are complete

  // Until the transfers of state between devices have been started, which comes before all sums.
  Status settle_transfers();

  // Reduces all buckets again in the current assignment.
  Status repeat();
  // What the program sees of a discarded step: gradients of zero, or its own where it averages models.
  void settle_discarded();
  // The step, which is open no more.
  OpenStep take();
  void stop_background() { reducer_.reset(); }

 private:
  void open_round(const RoundPace& pace);
  void next_of_round();
  void start_transfers();
  void divide();
  Status finish_sums(Status status);
  void put(Bucket& bucket);

  const Parts parts_;
  std::optional<OpenStep> step_;
  Round round_;
  bool between_batches_ = false;
  bool in_background_ = false;
  Bucket transfers_{.kind = Bucket::Kind::kDeviceTransfers};
  bool starts_transfers_ = false;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace elastictrain::session
