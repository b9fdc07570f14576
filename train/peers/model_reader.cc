#include "train/peers/model_reader.h"

#include <utility>

#include "train/session/background_thread.h"

namespace elastictrain::peers {

ModelReader::ModelReader(Read read)
    : read_(std::move(read)), thread_(session::background_thread("et-models", [this] { run(); })) {}

ModelReader::~ModelReader() {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kEnding;
  }
  changed_.notify_one();
  thread_.join();
}

void ModelReader::start(std::span<const std::byte> entry, std::size_t floats) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kIdle) return;
    entry_.assign(entry.begin(), entry.end());
    model_.resize(floats);
    state_ = State::kAsked;
  }
  changed_.notify_one();
}

bool ModelReader::take(std::vector<float>& model) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kArrived) return false;
  std::swap(model, model_);
  state_ = State::kIdle;
  return true;
}

void ModelReader::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return state_ == State::kAsked || state_ == State::kEnding; });
    if (state_ == State::kEnding) return;
    lock.unlock();
    const bool arrived = read_(entry_, model_);
    lock.lock();
    if (state_ == State::kAsked) state_ = arrived ? State::kArrived : State::kIdle;
  }
}

}  // namespace elastictrain::peers
