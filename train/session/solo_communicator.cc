#include "train/session/solo_communicator.h"

#include <algorithm>

namespace elastictrain::session {
namespace {

double square_sum(std::span<const float> data) {
  double lanes[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    for (std::size_t k = 0; k < 8; ++k) lanes[k] += static_cast<double>(data[i + k]) * data[i + k];
  }
  for (; i < data.size(); ++i) lanes[0] += static_cast<double>(data[i]) * data[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

comm::Capabilities SoloCommunicator::capabilities() const {
  return {.name = "solo"};
}

Status SoloCommunicator::check() const {
  if (aborted_.load()) return Error{ErrorCode::kAborted, "the communicator was aborted"};
  return {};
}

Status SoloCommunicator::all_reduce(std::span<float> data, const comm::ReduceOptions& options,
                                    comm::ReduceStats* stats) {
  std::copy(data.begin(), data.begin() + std::min(data.size(), options.keep.size()), options.keep.begin());
  if (auto status = check(); !status) return status;
  const bool norms = options.want_norms && stats != nullptr;
  if (norms) stats->local_square_sum = square_sum(data);
  if (options.scale != 1.0F) {
    for (float& value : data) value *= options.scale;
  }
  if (norms) {
    stats->reduced_square_sum =
        stats->local_square_sum * static_cast<double>(options.scale) * static_cast<double>(options.scale);
  }
  return {};
}

Status SoloCommunicator::broadcast(std::span<std::byte>, std::uint32_t) {
  return check();
}

Status SoloCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::copy(mine.begin(), mine.end(), all.begin());
  return check();
}

Status SoloCommunicator::send(std::span<const std::byte>, std::uint32_t) {
  return Error{ErrorCode::kInvalid, "a world of one has no peer to send to"};
}

Status SoloCommunicator::receive(std::span<std::byte>, std::uint32_t) {
  return Error{ErrorCode::kInvalid, "a world of one has no peer to receive from"};
}

Status SoloCommunicator::barrier() {
  return check();
}

}  // namespace elastictrain::session
