#include "train/builtin/model_synthetic.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>

namespace elastictrain::train {
namespace {

constexpr double kMaxNumber = 1e6;

double read_number(const std::string& path, double otherwise) {
  std::ifstream file(path);
  double number = 0;
  return (file >> number) && number > 0 && number <= kMaxNumber ? number : otherwise;
}

}  // namespace

NumberFile::NumberFile(const std::string& directory, const std::string& name, double otherwise)
    : path_(directory.empty() ? "" : directory + "/" + name), otherwise_(otherwise) {}

double NumberFile::next() const {
  return path_.empty() ? otherwise_ : read_number(path_, otherwise_);
}

SlowDown::SlowDown(std::span<const SlowWorker> slow, const std::string& directory, std::uint64_t worker_id)
    : own_(directory, "slow-" + std::to_string(worker_id), 1), of_all_(directory, "slow-all", 1) {
  for (const SlowWorker& entry : slow) {
    if (entry.worker_id == worker_id) fixed_factor_ = entry.factor;
  }
}

double SlowDown::next_factor() {
  return fixed_factor_ * own_.next() * of_all_.next();
}

std::string slow_directory() {
  const char* const directory = std::getenv("ELASTICTRAIN_SLOW_DIR");
  return directory == nullptr ? "" : directory;
}

namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// From -0.5 up to below 0.5; integer arithmetic that compilers vectorize.
float pattern(std::size_t index) {
  const auto mixed = (static_cast<std::uint32_t>(index) * 2654435761U) >> 8;
  return static_cast<float>(static_cast<std::int32_t>(mixed)) * 0x1.0p-24F - 0.5F;
}

nanoseconds thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

// CPU time, not wall time: workers that share a core slow each other down as real ones do.
void spin_until(nanoseconds cpu_time) {
  while (thread_cpu_time() < cpu_time) {
  }
}

std::vector<Range> equal_buckets(std::size_t count, std::size_t buckets) {
  std::vector<Range> layers;
  buckets = std::min(buckets, count);
  for (std::size_t i = 0; i < buckets; ++i) {
    const std::size_t begin = count * i / buckets;
    layers.push_back({begin, count * (i + 1) / buckets - begin});
  }
  return plan_buckets(layers, 1);
}

}  // namespace

SyntheticModel::SyntheticModel(const TrainerOptions& options) : options_(options) {
  const std::size_t count = std::max<std::size_t>(options.parameter_bytes / sizeof(float), 1);
  allocate(count, equal_buckets(count, options.buckets));
  const float scale = static_cast<float>(Random(options.seed).uniform(0.5, 1.5));
  for (std::size_t i = 0; i < count; ++i) parameters()[i] = scale * pattern(i);
  for (std::size_t i = 0; i < count; ++i) gradient()[i] = 0.001F * pattern(i);
}

void SyntheticModel::set_worker(std::uint64_t worker_id) {
  slow_down_.emplace(options_.slow, slow_directory(), worker_id);
  exchange_factor_ = NumberFile(slow_directory(), "exchange", 1);
  data_wait_ms_ = NumberFile(slow_directory(), "data-" + std::to_string(worker_id), 0);
  jitter_ = Random(worker_id);
}

nanoseconds SyntheticModel::compute_time(std::uint64_t us_per_sample, std::size_t samples, double factor) {
  const double microseconds = static_cast<double>(us_per_sample) * static_cast<double>(samples) * factor;
  return nanoseconds(static_cast<std::int64_t>(microseconds * 1000));
}

void SyntheticModel::load_data() {
  const std::chrono::duration<double, std::milli> wait(data_wait_ms_.next());
  if (wait.count() > 0) std::this_thread::sleep_for(wait);
}

void SyntheticModel::exchanged(std::uint32_t workers) {
  const double factor = exchange_factor_.next();
  if (!options_.exchange_us.empty()) {
    std::this_thread::sleep_for(exchange_time(options_.exchange_us, workers) * factor);
  }
}

nanoseconds SyntheticModel::exchange_time(std::span<const ExchangeTime> times, std::uint32_t workers) {
  const auto above =
      std::find_if(times.begin(), times.end(), [&](const ExchangeTime& time) { return time.workers >= workers; });
  if (above == times.end()) return std::chrono::microseconds(times.back().time_us);
  if (above == times.begin()) return std::chrono::microseconds(above->time_us);
  const ExchangeTime& low = *(above - 1);
  const double part = static_cast<double>(workers - low.workers) / (above->workers - low.workers);
  const double low_us = static_cast<double>(low.time_us);
  const double time_us = low_us + part * (static_cast<double>(above->time_us) - low_us);
  return nanoseconds(static_cast<std::int64_t>(time_us * 1000));
}

void SyntheticModel::spend_time(std::size_t samples, const std::function<void()>& work) {
  const auto wall_start = steady_clock::now();
  const nanoseconds cpu_start = thread_cpu_time();
  double factor = slow_down_ ? slow_down_->next_factor() : 1;
  factor *= 1 + options_.jitter * jitter_.uniform(-1, 1);
  const nanoseconds time = compute_time(options_.compute_us_per_sample, samples, factor);
  work();
  if (options_.compute == ComputeKind::kSpin) {
    spin_until(cpu_start + time);
  } else {
    std::this_thread::sleep_until(wall_start + time);
  }
}

double SyntheticModel::compute(std::span<const std::uint64_t> samples, const BucketReady& ready) {
  double loss = 0;
  spend_time(samples.size(), [&] {
    if (options_.gradient == GradientKind::kSamples) fill_gradient(mean_of(samples));
    loss = loss_of(parameters().first(std::min(kLossParameters, parameters().size())));
  });
  for (const Range& bucket : buckets()) ready(bucket);
  return loss;
}

float SyntheticModel::mean_of(std::span<const std::uint64_t> samples) {
  double sum = 0;
  for (const std::uint64_t sample : samples) sum += Random(sample).uniform(-1, 1);
  return static_cast<float>(sum / static_cast<double>(samples.size()));
}

double SyntheticModel::loss_of(std::span<const float> first_parameters) {
  double square_sum = 0;
  for (const float value : first_parameters) square_sum += static_cast<double>(value) * value;
  return square_sum / static_cast<double>(first_parameters.size());
}

void SyntheticModel::fill_gradient(float mean) {
  const float* const p = parameters().data();
  float* const g = gradient().data();
  for (std::size_t i = 0; i < gradient().size(); ++i) g[i] = mean * pattern(i) + 0.1F * p[i];
}

}  // namespace elastictrain::train
