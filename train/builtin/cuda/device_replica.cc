#include "train/builtin/cuda/device_replica.h"

namespace elastictrain::train {
namespace {

constexpr std::size_t kCopyAlignment = 16;  // of Session::reserve_gradient_copies()

}  // namespace

Status find_gpu_and_libraries() {
  const auto count = device::Device::count();
  if (!count) return count.error();
  if (*count == 0) return Error{ErrorCode::kUnavailable, "this process sees no GPU; check CUDA_VISIBLE_DEVICES"};
  const auto blas = device::CublasLibrary::get();
  if (!blas) return blas.error();
  return device::find_kernel_compiler();
}

Result<std::unique_ptr<Replica>> DeviceReplica::open(const TrainerOptions& options, Model& model, Session& session) {
  if (const Status found = find_gpu_and_libraries(); !found) return found.error();
  auto engine = Engine::open(session.use_device());
  if (!engine) return engine.error();
  std::unique_ptr<DeviceReplica> replica(new DeviceReplica(*std::move(engine), options, model, session));
  if (const Status made = replica->engine_->status(); !made) return made.error();
  replica->share_state();
  return std::unique_ptr<Replica>(std::move(replica));
}

DeviceReplica::DeviceReplica(std::unique_ptr<Engine> engine, const TrainerOptions& options, Model& model,
                             Session& session)
    : engine_(std::move(engine)),
      host_(model),
      session_(session),
      model_(make_device_model(*engine_, options, model)),
      optimizer_(make_device_optimizer(*engine_, options, model_->count())),
      host_parameters_(model_->count()) {}

void DeviceReplica::share_state() {
  session_.reserve_gradient_copies(model_->count() * sizeof(float) + host_.buckets().size() * kCopyAlignment);
  session_.share_device_state("parameters", model_->parameters(), model_->count() * sizeof(float));
  for (const StateBuffer& part : optimizer_->state()) {
    if (part.on_device) {
      session_.share_device_state(part.name, part.data, part.bytes);
    } else {
      session_.share_state(part.name, part.data, part.bytes);
    }
  }
}

// As on the host: no computation overlaps with a model's only bucket.
void DeviceReplica::reduce(Range bucket) {
  float* const data = model_->gradient() + bucket.begin;
  if (host_.buckets().size() == 1) {
    session_.all_reduce_device(data, bucket.count, engine_->stream());
  } else {
    session_.all_reduce_device_async(data, bucket.count, engine_->stream());
  }
}

Status DeviceReplica::compute(std::span<const std::uint64_t> samples) {
  has_loss_ = !samples.empty();
  if (has_loss_) {
    model_->compute(samples, [this](Range bucket) {
      if (engine_->status()) reduce(bucket);
    });
  } else {
    for (const Range& bucket : host_.buckets()) reduce(bucket);
  }
  return engine_->status();
}

// The loss precedes the gradients, whose sums have arrived, so it has arrived as well.
Result<double> DeviceReplica::update(double learning_rate) {
  optimizer_->update(model_->parameters(), model_->gradient(), learning_rate);
  const double loss = has_loss_ ? model_->loss() : 0;
  if (!engine_->status()) return engine_->status().error();
  return loss;
}

Result<std::span<const float>> DeviceReplica::parameters() {
  engine_->download(model_->parameters(), host_parameters_);
  if (!engine_->status()) return engine_->status().error();
  return std::span<const float>(host_parameters_);
}

}  // namespace elastictrain::train
