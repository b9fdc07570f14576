#include "cli/commands/begin_watch.h"

#include <utility>
#include <variant>

namespace elastictrain::cli {

BeginWatch::BeginWatch(asio::io_context& io, std::uint64_t workers, std::chrono::milliseconds plain_after,
                       std::function<void()> begun)
    : timer_(io), workers_(workers), plain_after_(plain_after), begun_(std::move(begun)) {}

void BeginWatch::take(const core::Record& record) {
  if (std::holds_alternative<core::record::Hello>(record)) uses_library_ = true;
  if (std::holds_alternative<core::record::Spawned>(record) && ++running_ == workers_) all_run();
  const bool trains_on = std::holds_alternative<core::record::AllBack>(record);
  if (trains_on || std::holds_alternative<core::record::GenerationComplete>(record)) report();
}

void BeginWatch::all_run() {
  timer_.expires_after(plain_after_);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !uses_library_) report();
  });
}

void BeginWatch::report() {
  if (auto begun = std::exchange(begun_, nullptr)) begun();
}

}  // namespace elastictrain::cli
