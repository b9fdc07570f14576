#include "train/session/model_exchange.h"

#include <algorithm>
#include <utility>

namespace elastictrain::session {

void ModelExchange::add_state(std::span<std::byte> bytes) {
  other_state_.push_back(bytes);
}

void ModelExchange::model_is(std::span<float> model) {
  other_state_.pop_back();
  models_.push_back(model);
  model_floats_ += model.size();
}

void ModelExchange::moved(const std::byte* from, std::byte* to) {
  for (auto& model : models_) {
    if (static_cast<const void*>(model.data()) == from) model = {reinterpret_cast<float*>(to), model.size()};
  }
  for (auto& state : other_state_) {
    if (state.data() == from) state = {to, state.size()};
  }
}

void ModelExchange::fill_from_models(bool contributes) {
  contributed_ = contributes;
  has_correction_ = false;
  received_.assign(model_floats_ + 1, 0.0F);
  if (!contributes) return;
  auto at = received_.begin();
  for (const auto& model : models_) at = std::copy(model.begin(), model.end(), at);
  *at = 1.0F;
}

void ModelExchange::divide_by_contributors() {
  const float contributors = received_.back();
  if (contributors <= 1.0F) return;
  for (std::size_t i = 0; i < model_floats_; ++i) received_[i] /= contributors;
}

Status ModelExchange::average(comm::Communicator& communicator, std::span<float> lane, bool contributes) {
  fill_from_models(contributes);
  comm::ReduceOptions options;
  options.lane = lane;
  if (auto status = communicator.all_reduce(received_, options); !status) return status;
  divide_by_contributors();
  return {};
}

Status ModelExchange::swap(comm::Communicator& communicator, std::uint32_t partner, bool contributes) {
  fill_from_models(contributes);
  std::swap(sent_, received_);
  received_.resize(sent_.size());
  auto status =
      communicator.exchange(std::as_bytes(std::span(sent_)), std::as_writable_bytes(std::span(received_)), partner);
  if (!status) return status;
  contributed_ = contributed_ && received_.back() != 0.0F;
  return {};
}

void ModelExchange::receive(std::vector<float>& model) {
  std::swap(received_, model);
  contributed_ = true;
  has_correction_ = false;
}

void ModelExchange::copy_models(std::vector<float>& into) const {
  into.resize(model_floats_);
  auto at = into.begin();
  for (const auto& model : models_) at = std::copy(model.begin(), model.end(), at);
}

void ModelExchange::keep_correction(float fraction) {
  if (!contributed_) return;
  auto at = received_.begin();
  for (const auto& model : models_) {
    for (const float own : model) {
      *at = fraction * (*at - own);
      ++at;
    }
  }
  has_correction_ = true;
}

void ModelExchange::apply_correction() {
  if (!std::exchange(has_correction_, false)) return;
  auto at = received_.begin();
  for (const auto& model : models_) {
    for (float& own : model) own += *at++;
  }
}

Status ModelExchange::gather_equal_state(comm::Communicator& communicator, std::uint32_t root, bool contributes) {
  if (auto status = average(communicator, {}, contributes); !status) return status;
  if (received_.back() == 0.0F) return Error{ErrorCode::kInternal, "no rank holds a model to send to the others"};
  std::size_t bytes = 0;
  for (const auto& part : other_state_) bytes += part.size();
  received_state_.resize(bytes);
  if (communicator.rank() == root) {
    auto at = received_state_.begin();
    for (const auto& part : other_state_) at = std::copy(part.begin(), part.end(), at);
  }
  return communicator.broadcast(received_state_, root);
}

void ModelExchange::adopt() {
  auto at = received_.begin();
  for (const auto& model : models_) {
    std::copy_n(at, model.size(), model.begin());
    at += static_cast<std::ptrdiff_t>(model.size());
  }
  auto from = received_state_.begin();
  for (const auto& part : other_state_) {
    std::copy_n(from, part.size(), part.begin());
    from += static_cast<std::ptrdiff_t>(part.size());
  }
  received_state_ = {};
}

}  // namespace elastictrain::session
