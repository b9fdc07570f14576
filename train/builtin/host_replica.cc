#include "train/builtin/host_replica.h"

namespace elastictrain::train {

HostReplica::HostReplica(const TrainerOptions& options, Model& model, Session& session)
    : model_(model), session_(session), optimizer_(make_optimizer(options, model.parameters().size())) {
  const std::span<float> parameters = model.parameters();
  session.share_model("parameters", parameters.data(), parameters.size());
  for (const StateBuffer& part : optimizer_->state()) session.share_state(part.name, part.data, part.bytes);
}

// No computation overlaps with a model's only bucket: it is reduced on this thread, which saves small models a thread
// switch.
void HostReplica::reduce(Range bucket) {
  float* const data = model_.gradient().data() + bucket.begin;
  if (model_.buckets().size() == 1) {
    session_.all_reduce(data, bucket.count);
  } else {
    session_.all_reduce_async(data, bucket.count);
  }
}

Status HostReplica::compute(std::span<const std::uint64_t> samples) {
  loss_ = 0;
  if (samples.empty()) {
    for (const Range& bucket : model_.buckets()) reduce(bucket);
  } else {
    loss_ = model_.compute(samples, [this](Range bucket) { reduce(bucket); });
  }
  return {};
}

Result<double> HostReplica::update(double learning_rate) {
  optimizer_->update(model_.parameters(), model_.gradient(), learning_rate);
  return loss_;
}

}  // namespace elastictrain::train
