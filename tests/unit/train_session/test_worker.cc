#include "test_worker.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iomanip>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "device_arrays.h"
#include "elastictrain/session.hpp"

namespace elastictrain::test {
namespace {

class BrokenPromise : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

std::uint16_t bfloat_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

float float_of(std::uint16_t bfloat) {
  return std::bit_cast<float>(std::uint32_t{bfloat} << 16);
}

class Program {
 public:
  explicit Program(const TestWorkerOptions& options)
      : options_(options), weights_(options.parameters), momentum_(options.parameters), gradient_(options.parameters) {
    std::iota(weights_.begin(), weights_.end(), static_cast<float>(getpid() % 1000));
    if (std::getenv("TEST_WORKER_DEVICE") != nullptr) {
      device_.emplace(session_, options.parameters);
      device_->put_state(weights_, momentum_);
    } else if (options.shares_model) {
      session_.share_model("weights", weights_.data(), weights_.size());
    } else {
      session_.share_state("weights", weights_.data(), weights_.size() * sizeof(float));
    }
    if (!device_) session_.share_state("momentum", momentum_.data(), momentum_.size() * sizeof(float));
    session_.set_data({.sample_count = options.sample_count,
                       .epochs = options.epochs,
                       .seed = 5,
                       .batch = 8,
                       .max_steps = options.max_steps,
                       .min_local_samples = options.min_local_samples,
                       .drop_last = options.drop_last});
    session_.measure_gradient_variance(options.variance_every);
    if (options.uses_store) session_.enable_store();
    session_.on_change([this](const Change& change) {
      if (change.joined_now) late_joiner_ = change.generation > 1;
      if (change.joined_now && !options_.may_start_late && late_joiner_ != (change.previous_world_size != 0)) {
        throw BrokenPromise("a joiner does not know that others were there before it");
      }
      if (change.rank != session_.rank() || change.world_size != session_.world_size()) {
        throw BrokenPromise("on_change() and the session disagree");
      }
    });
  }

  int run() {
    if (options_.before_start) options_.before_start(session_);
    if (!session_.start()) return session_.outcome() == Outcome::kStopped ? kExitStopped : kExitDismissed;
    if (options_.after_start) options_.after_start(session_);
    bool first = true;
    while (auto batch = session_.next_batch()) {
      if (first && !options_.may_start_late && late_joiner_ != (batch->local_samples == 0))
        throw BrokenPromise("a joiner's first batch is not empty");
      first = false;
      // Forward and backward passes are never repeated.
      if (batch->local_samples != 0 && batch->step <= last_computed_) throw BrokenPromise("a step is computed twice");
      if (batch->local_samples != 0) last_computed_ = batch->step;
      if (options_.on_batch) options_.on_batch(*batch);
      options_.changes_threads ? step_on_new_thread(*batch) : step(*batch);
      trace();
      pass(Moment::kOutside, batch->step);
      if (options_.between_steps) options_.between_steps(session_, batch->step);
    }
    if (options_.at_end) options_.at_end(session_);
    trace();
    if (options_.variance_every != 0) note_monitors();
    if (options_.uses_store) session_.note("store", std::to_string(replies_) + " " + std::to_string(edges_));
    session_.finish();
    if (session_.outcome() == Outcome::kLeft) return kExitLeft;
    return session_.outcome() == Outcome::kStopped ? kExitStopped : kExitFinished;
  }

 private:
  void step_on_new_thread(const Batch& batch) {
    std::exception_ptr error;
    std::thread([&] {
      try {
        step(batch);
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error) std::rethrow_exception(error);
  }

  void step(const Batch& batch) {
    const auto rank = session_.rank();
    const auto world_size = session_.world_size();
    if (!options_.schedule.empty()) {
      session_.request_resize(Session::step_based_schedule(options_.schedule, batch.step));
    }
    compute(batch);
    pass(Moment::kComputing, batch.step);
    std::this_thread::sleep_for(std::chrono::microseconds(options_.step_time_us));
    if (options_.quits_in_the_middle && batch.step == 3) throw std::runtime_error("the program failed");
    if (options_.in_step) options_.in_step(session_, batch.step);
    const long faults_before = page_faults();
    if (options_.reduce) reduce(batch.step);
    if (options_.after_sums) options_.after_sums(session_, batch.step);
    if (options_.notes_faults && late_joiner_) note_faults(batch, page_faults() - faults_before);
    if (std::to_string(batch.step) == options_.note_gradient_of_step) note_gradient();
    if (rank != session_.rank() || world_size != session_.world_size())
      throw BrokenPromise("rank changed within a step");
    if (options_.uses_store) use_store(batch.step);
    if (options_.reduce) update();
    pass(Moment::kUpdating, batch.step);
    session_.commit_step({.loss = 1.0 / static_cast<double>(batch.step)});
    if (session_.outcome() == Outcome::kRunning && session_.committed_step() < batch.step && !options_.runs_ahead) {
      throw BrokenPromise("the step was neither committed nor replaced by a later state");
    }
  }

  // Without samples the weights may still be in transfer: they are not read, and the gradient is arbitrary.
  void compute(const Batch& batch) {
    if (batch.local_samples == 0) return std::fill(gradient_.begin(), gradient_.end(), std::nanf(""));
    if (device_) device_->get_state(weights_, momentum_);
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      double sum = 0;
      for (const auto sample : batch.samples) sum += sample_gradient(sample, i);
      sum /= static_cast<double>(batch.local_samples);
      gradient_[i] = static_cast<float>(sum + pull() * static_cast<double>(weights_[i]));
    }
  }

  // Makes gradients depend on the weights, so that unequal weights show; a noted gradient is of the samples alone.
  double pull() const { return options_.note_gradient_of_step.empty() ? 0.001 : 0; }

  // In the memory of as many floats, whose second half is unused.
  void make_narrow() {
    if (!options_.narrow) return;
    const std::vector<float> wide = gradient_;
    for (std::size_t i = 0; i < wide.size(); ++i) narrow_gradient()[i] = bfloat_of(wide[i]);
  }
  void make_wide() {
    if (!options_.narrow) return;
    std::vector<float> wide(gradient_.size());
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = float_of(narrow_gradient()[i]);
    gradient_ = wide;
  }
  std::uint16_t* narrow_gradient() { return reinterpret_cast<std::uint16_t*>(gradient_.data()); }

  void reduce(std::uint64_t step) {
    make_narrow();
    if (device_) device_->put_gradient(gradient_);
    const std::size_t third = gradient_.size() / 3;
    reduce_bucket(0, third);
    if (device_ && options_.behind_first_bucket) options_.behind_first_bucket(device_->stream());
    if (options_.shares_own_data && !options_.overlap) share_own_data();
    pass(Moment::kBetweenBuckets, step);
    reduce_bucket(third, gradient_.size() - third);
    if (options_.overlap && options_.shares_own_data) share_own_data();
    if (options_.overlap) session_.wait_all_reduce();
    if (device_) device_->get_gradient(gradient_);
    make_wide();
  }

  void reduce_narrow_bucket(std::size_t first, std::size_t count) {
    constexpr auto kType = DataType::kBFloat16;
    if (device_) {
      auto* const data = reinterpret_cast<std::uint16_t*>(device_->gradient()) + first;
      if (options_.overlap) return session_.all_reduce_device_async(data, count, kType, device_->stream());
      return session_.all_reduce_device(data, count, kType, device_->stream());
    }
    if (options_.overlap) return session_.all_reduce_async(narrow_gradient() + first, count, kType);
    session_.all_reduce(narrow_gradient() + first, count, kType);
  }

  void reduce_bucket(std::size_t first, std::size_t count) {
    if (options_.narrow) return reduce_narrow_bucket(first, count);
    if (device_ && options_.overlap) {
      session_.all_reduce_device_async(device_->gradient() + first, count, device_->stream());
    } else if (device_) {
      session_.all_reduce_device(device_->gradient() + first, count, device_->stream());
    } else if (options_.overlap) {
      session_.all_reduce_async(gradient_.data() + first, count);
    } else {
      session_.all_reduce(gradient_.data() + first, count);
    }
  }

  void share_own_data() {
    own_ = {1, static_cast<float>(session_.worker_id())};
    first_worker_ = session_.worker_id();
    session_.sum(own_.data(), own_.size());
    session_.broadcast(&first_worker_, sizeof first_worker_);
  }

  // The data contains which worker saved it and when.
  void use_store(std::uint64_t step) {
    const std::uint64_t mine[] = {session_.worker_id(), step};
    session_.save("who", mine, sizeof mine, step);
    std::uint64_t theirs[2] = {};
    const auto rank = (session_.rank() + 1) % session_.world_size();
    const auto reply = session_.request(rank, "who", 0, theirs, sizeof theirs);
    if (reply.found && (theirs[1] != reply.version || theirs[0] == 0)) throw BrokenPromise("the store mixes versions");
    if (reply.found && theirs[0] != session_.worker_id()) ++replies_;
    if (session_.request(rank, "nothing", 0, theirs, sizeof theirs).found) throw BrokenPromise("the store invents");
    if (step % 5 == 0) edges_ = session_.minimum_spanning_tree().size();
  }

  void note_monitors() {
    const auto monitors = session_.monitors();
    session_.note("variance", std::to_string(monitors.gradient_variance));
    session_.note("noise", std::to_string(monitors.noise_scale));
    session_.note("bytes", std::to_string(monitors.bytes_shared + monitors.bytes_sent));
    std::string peers = std::to_string(monitors.bytes_sent) + " " + std::to_string(monitors.bytes_received);
    for (const auto& peer : session_.peer_monitors()) {
      peers += " " + std::to_string(peer.bytes_sent) + " " + std::to_string(peer.bytes_received) + " " +
               std::to_string(peer.round_trip_us);
    }
    session_.note("peers", peers);
  }

  void pass(Moment::Where where, std::uint64_t step) {
    const auto is_now = [&](const std::optional<Moment>& moment) {
      return moment && moment->where == where && (options_.runs_ahead ? step >= moment->step : step == moment->step);
    };
    if (is_now(options_.waits)) wait_to_be_let_go();
    const bool in_generation = options_.dies_in_generation != 0 && options_.dies && options_.dies->where == where &&
                               session_.generation() == options_.dies_in_generation;
    if (in_generation || is_now(options_.dies)) ::kill(::getpid(), SIGKILL);
  }

  void trace() const {
    if (!options_.traces_weight) return;
    const char* directory = std::getenv("TEST_WORKER_DIRECTORY");
    std::ofstream(trace_path(directory, session_.worker_id()), std::ios::app)
        << session_.committed_step() << ' ' << std::setprecision(9) << weights_[0] << '\n';
  }

  void note_faults(const Batch& batch, long faults) {
    if (batch.local_samples == 0) session_.note("faults_of_first_step", std::to_string(faults));
    if (batch.local_samples != 0 && !std::exchange(has_noted_faults_, true)) {
      session_.note("faults_of_second_step", std::to_string(faults));
    }
  }

  void note_gradient() {
    char text[64];
    for (const std::size_t i : {std::size_t{0}, gradient_.size() / 2, gradient_.size() - 1}) {
      std::snprintf(text, sizeof text, "%.9g", static_cast<double>(gradient_[i]));
      session_.note("gradient" + std::to_string(i), text);
    }
  }

  void update() {
    const auto rate = static_cast<float>(0.01 * session_.learning_rate_factor());
    if (options_.shares_own_data) {
      const auto max = static_cast<float>(session_.world_size());
      if (own_[0] < 1 || own_[0] > max || own_[1] < own_[0])
        throw BrokenPromise("a sum of other parts than the workers'");
      gradient_[0] += own_[0] + 0.1F * own_[1];
      gradient_[1] += static_cast<float>(first_worker_);
    }
    if (device_) device_->get_state(weights_, momentum_);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (std::isnan(gradient_[i])) throw BrokenPromise("what an empty batch left in the gradient came back");
      momentum_[i] = 0.9F * momentum_[i] + gradient_[i];
      weights_[i] -= rate * momentum_[i];
    }
    if (device_) device_->put_state(weights_, momentum_);
  }

  TestWorkerOptions options_;
  std::vector<float> weights_;
  std::vector<float> momentum_;
  std::vector<float> gradient_;
  std::vector<float> own_{1, 1};
  std::uint64_t first_worker_ = 0;
  std::uint64_t replies_ = 0;
  std::uint64_t edges_ = 0;
  bool late_joiner_ = false;
  bool has_noted_faults_ = false;
  std::uint64_t last_computed_ = 0;
  std::optional<DeviceArrays> device_;  // instead of host memory
  Session session_;
};

}  // namespace

void wait_to_be_let_go() {
  const char* go = std::getenv("TEST_WORKER_GO");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (go != nullptr && ::access(go, F_OK) != 0) {
    if (std::chrono::steady_clock::now() > deadline) throw BrokenPromise("the test did not let this worker go");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

double sample_gradient(std::uint64_t sample, std::size_t parameter) {
  const std::uint32_t mixed = (static_cast<std::uint32_t>(sample) * 2654435761U) ^
                              (static_cast<std::uint32_t>(parameter) * 2246822519U + 374761393U);
  return static_cast<double>(static_cast<std::int32_t>(mixed * 3266489917U)) / 2147483648.0 + 0.1;
}

std::string trace_path(const std::string& directory, std::uint64_t worker) {
  return directory + "/trace-" + std::to_string(worker);
}

int run_test_worker(const TestWorkerOptions& options) {
  try {
    return Program(options).run();
  } catch (const BrokenPromise& error) {
    std::fprintf(stderr, "worker %d: %s\n", static_cast<int>(getpid()), error.what());
    return kExitBrokenPromise;
  } catch (const std::exception& error) {
    if (!options.quits_in_the_middle) std::fprintf(stderr, "worker %d: %s\n", static_cast<int>(getpid()), error.what());
    return kExitSessionError;
  }
}

}  // namespace elastictrain::test
