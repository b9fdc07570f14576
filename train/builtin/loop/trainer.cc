#include "train/builtin/loop/trainer.h"

#include <chrono>
#include <cstdio>
#include <elastictrain/session.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "train/builtin/cuda/device_replica.h"
#include "train/builtin/epoch_log.h"
#include "train/builtin/evaluation.h"
#include "train/builtin/replica.h"

namespace elastictrain::train {

Result<std::unique_ptr<Replica>> make_replica(const TrainerOptions& options, Model& model, Session& session) {
  const bool on_device =
      options.device == DeviceChoice::kCuda || (options.device == DeviceChoice::kAuto && find_gpu_and_libraries().ok());
  if (on_device) return DeviceReplica::open(options, model, session);
  return std::unique_ptr<Replica>(std::make_unique<HostReplica>(options, model, session));
}

namespace {

using std::chrono::steady_clock;

constexpr int kExitUsage = 64;
constexpr int kExitData = 65;
constexpr int kExitNoInput = 66;
constexpr int kExitUnavailable = 69;
constexpr int kExitSoftware = 70;
constexpr int kExitSystem = 71;

// One write per line, so that lines of several workers never mix.
void print_line(const std::string& line) {
  const std::string text = line + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int fail(int status, const std::string& message) {
  std::cerr << "elastictrain worker: " << message << "\n";
  return status;
}

class Trainer {
 public:
  Trainer(const TrainerOptions& options, Model& model)
      : options_(options), model_(model), evaluation_(model), log_(steady_clock::now()) {}

  Status run() {
    Result<std::unique_ptr<Replica>> replica = make_replica(options_, model_, session_);
    if (!replica) return replica.error();
    replica_ = *std::move(replica);
    session_.set_data({.sample_count = model_.sample_count(),
                       .epochs = options_.epochs,
                       .seed = options_.seed,
                       .batch = options_.batch,
                       .max_steps = options_.max_steps});
    if (!session_.start()) return {};
    model_.set_worker(session_.worker_id());
    log_ = EpochLog(steady_clock::now());
    while (const std::optional<Batch> batch = next_batch()) {
      Status good;
      if (batch->epoch != epoch_) good = end_epoch(*batch);
      if (good) good = step(*batch);
      if (!good) return good;
      after_step(*batch);
    }
    if (session_.outcome() == Outcome::kFinished) {
      if (Status status = end_run(); !status) return status;
    }
    session_.finish();
    return {};
  }

 private:
  std::optional<Batch> next_batch() {
    model_.load_data();
    return session_.next_batch();
  }

  Status step(const Batch& batch) {
    if (Status computed = replica_->compute(batch.samples); !computed) return computed;
    session_.wait_all_reduce();
    model_.exchanged(session_.world_size());
    const double rate = effective_learning_rate(options_) * session_.learning_rate_factor();
    const Result<double> loss = replica_->update(rate);
    if (!loss) return loss.error();
    session_.commit_step({.loss = *loss});
    return {};
  }

  void after_step(const Batch& batch) {
    const StepReport report = session_.last_step();
    log_.add_step(report.loss, report.samples);
    const std::uint64_t every = options_.log_every_steps;
    if (every > 0 && batch.step % every == 0 && session_.rank() == 0) {
      print_line("step " + std::to_string(batch.step) + ": loss " + four_digits(report.loss));
    }
    if (const auto done = evaluation_.poll()) tell_score(done->epoch, done->score);
  }

  // `batch` is the first of the next epoch.
  Status end_epoch(const Batch& batch) {
    const auto now = steady_clock::now();
    Status status;
    if (pace_.due(batch.epoch, now)) {
      if (session_.rank() == 0 && !log_.empty()) status = report_and_score(batch);
      log_ = EpochLog(now);
    }
    epoch_ = batch.epoch;
    return status;
  }

  // The parameters of a new worker arrive during its first step, whose batch is empty: there is nothing to score
  // before.
  Status report_and_score(const Batch& batch) {
    tell_epoch();
    const std::uint64_t every = options_.eval_every_epochs;
    const bool due = every > 0 && batch.epoch % every == 0 && model_.has_held_out_data();
    if (!due || batch.samples.empty()) return {};
    const auto parameters = replica_->parameters();
    if (!parameters) return parameters.error();
    if (const auto done = evaluation_.wait()) tell_score(done->epoch, done->score);
    evaluation_.start(batch.epoch, *parameters);
    return {};
  }

  Status end_run() {
    if (session_.rank() != 0) return {};
    if (!log_.empty()) tell_epoch();
    if (const auto done = evaluation_.wait()) tell_score(done->epoch, done->score);
    const auto parameters = replica_->parameters();
    if (!parameters) return parameters.error();
    const Score score = evaluation_.evaluate_now(*parameters);
    print_line(final_line(session_.committed_step(), score));
    note_score(score);
    return {};
  }

  void tell_epoch() {
    print_line(epoch_line(epoch_ + 1, options_.epochs, log_, session_.world_size(), steady_clock::now()));
    session_.note("train_loss", four_digits(log_.mean_loss()));
  }

  void tell_score(std::uint64_t epoch, const Score& score) {
    if (session_.rank() != 0) return;
    print_line(score_line(epoch, options_.epochs, score));
    note_score(score);
  }

  void note_score(const Score& score) {
    if (score.count == 0) return;
    session_.note("accuracy", four_digits(score.accuracy()));
    session_.note("loss", four_digits(score.loss));
  }

  const TrainerOptions& options_;
  Model& model_;
  BackgroundEvaluation evaluation_;
  EpochLog log_;
  TellingPace pace_;
  std::uint64_t epoch_ = 0;
  std::unique_ptr<Replica> replica_;
  Session session_;  // last: it must go before the buffers that it shares
};

int train_model(const TrainerOptions& options) {
  Result<std::unique_ptr<Model>> model = make_model(options);
  if (!model) {
    const bool missing = model.error().code == ErrorCode::kUnavailable;
    return fail(missing ? kExitNoInput : kExitData, model.error().message);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(options.startup_delay_ms));
  const Status done = Trainer(options, **model).run();
  return done ? 0 : fail(kExitUnavailable, done.error().message);
}

}  // namespace

int run_trainer(const TrainerOptions& options) {
  const Status valid = validate(options);
  if (!valid) return fail(kExitUsage, valid.error().message);
  try {
    return train_model(options);
  } catch (const CheckpointError& error) {
    return fail(kExitNoInput, error.what());
  } catch (const SessionError& error) {
    return fail(kExitUnavailable, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kExitSystem, "not enough memory for the model or the data; use smaller ones or fewer workers");
  } catch (const std::exception& error) {
    return fail(kExitSoftware, error.what());
  }
}

}  // namespace elastictrain::train
