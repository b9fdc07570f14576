#include "train/builtin/epoch_log.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "supervisor/protocol/display_text.h"

namespace elastictrain::train {
namespace {

constexpr std::uint64_t kEpochsAlwaysLogged = 100;
constexpr std::chrono::milliseconds kTellingInterval{500};

std::string held_out_text(const Score& score) {
  return "held-out loss " + four_digits(score.loss) + ", accuracy " + four_digits(score.accuracy()) + " (" +
         std::to_string(score.correct) + " of " + std::to_string(score.count) + ")";
}

std::string epoch_text(std::uint64_t epoch, std::uint64_t epochs) {
  return "epoch " + std::to_string(epoch) + "/" + std::to_string(epochs) + ": ";
}

}  // namespace

void EpochLog::add_step(double loss, std::uint64_t samples) {
  loss_sum_ += loss * static_cast<double>(samples);
  samples_ += samples;
}

double EpochLog::mean_loss() const {
  return samples_ == 0 ? 0 : loss_sum_ / static_cast<double>(samples_);
}

double EpochLog::samples_per_second(Instant now) const {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  return seconds > 0 ? static_cast<double>(samples_) / seconds : 0;
}

bool TellingPace::due(std::uint64_t done, EpochLog::Instant now) {
  if (done > kEpochsAlwaysLogged && now - last_ < kTellingInterval) return false;
  last_ = now;
  return true;
}

std::string four_digits(double value) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.4f", value);
  return buffer.data();
}

std::string epoch_line(std::uint64_t epoch, std::uint64_t epochs, const EpochLog& log, std::uint32_t world_size,
                       EpochLog::Instant now) {
  const auto rate = static_cast<std::uint64_t>(std::llround(log.samples_per_second(now)));
  return epoch_text(epoch, epochs) + "loss " + four_digits(log.mean_loss()) + ", " +
         protocol::counted(world_size, "worker") + ", " + std::to_string(rate) + " samples/s";
}

std::string score_line(std::uint64_t epoch, std::uint64_t epochs, const Score& score) {
  return epoch_text(epoch, epochs) + held_out_text(score);
}

std::string final_line(std::uint64_t steps, const Score& score) {
  const std::string text = "finished after " + protocol::counted(steps, "step");
  return score.count == 0 ? text : text + ": " + held_out_text(score);
}

}  // namespace elastictrain::train
