#include "train/session/supervisor_messages.h"

#include <cstdio>
#include <string>
#include <utility>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/names.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/session/control_plane.h"

namespace elastictrain::session {

void Reports::tell(std::string_view key, const std::string& text) const {
  if (plane_ != nullptr) return plane_->send(protocol::WorkerNote{std::string(key), text});
  std::fprintf(stderr, "elastictrain: %.*s: %s\n", static_cast<int>(key.size()), key.data(), text.c_str());
}

void Reports::send(const protocol::WorkerToAgent& message) const {
  if (plane_ != nullptr) plane_->send(message);
}

namespace {

constexpr double kBytesOfOne = 1024;

void require_length(const char* what, std::size_t bytes, std::size_t limit) {
  if (bytes <= limit) return;
  throw SessionError("note(): a " + std::string(what) + " of " + std::to_string(bytes) +
                     " bytes is too long; at most " + std::to_string(limit));
}

}  // namespace

void Notes::add(std::string_view key, std::string_view value, std::chrono::steady_clock::time_point now) {
  require_length("key", key.size(), kMaxKeyBytes);
  require_length("value", value.size(), kMaxValueBytes);
  const double units = 1 + static_cast<double>(value.size()) / kBytesOfOne;
  if (allowance_.take(now, units)) {
    reports_.send(protocol::WorkerNote{std::string(key), std::string(value)});
  } else {
    ++dropped_;
  }
  if (dropped_ > 0 && report_allowance_.take(now)) close();
}

void Notes::close() {
  if (dropped_ == 0) return;
  const std::string text = std::to_string(std::exchange(dropped_, 0)) + " notes were dropped: a worker may write " +
                           std::to_string(kAtOnce) + " at once and " + std::to_string(kPerSecond) + " a second";
  reports_.send(protocol::WorkerNote{std::string(protocol::kNotesDropped), text});
}

namespace {

// Takes over what `newer` asks for. False: all of it was asked for before.
bool merge(protocol::WorkerRequest& asked, const protocol::WorkerRequest& newer) {
  bool is_news = false;
  const auto take = [&](auto protocol::WorkerRequest::*field) {
    const auto& target = newer.*field;
    if (target == std::decay_t<decltype(target)>{} || target == asked.*field) return;
    asked.*field = target;
    is_news = true;
  };
  take(&protocol::WorkerRequest::workers);
  take(&protocol::WorkerRequest::per_worker);
  take(&protocol::WorkerRequest::learning_rate_factor);
  take(&protocol::WorkerRequest::topology);
  take(&protocol::WorkerRequest::synchronization);
  return is_news;
}

}  // namespace

void Requests::ask(const protocol::WorkerRequest& request, protocol::Allowance::TimePoint now) {
  if (assignment_.rank == 0 && merge(asked_, request)) send(request, now);
}

void Requests::send(const protocol::WorkerRequest& news, protocol::Allowance::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!waiting_ && allowance_.take(now)) return reports_.send(news);
  if (!waiting_) waiting_.emplace();
  merge(*waiting_, news);
}

std::optional<protocol::WorkerRequest> Requests::take_waiting() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, std::nullopt);
}

}  // namespace elastictrain::session
