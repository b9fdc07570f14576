#include "train/session/requests.h"

#include <utility>

namespace elastictrain::session {
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
  if (seat_.rank == 0 && merge(asked_, request)) send(request, now);
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
