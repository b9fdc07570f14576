#include "train/session/requests.h"

#include <type_traits>

namespace elastictrain::session {

void Requests::ask(const protocol::WorkerRequest& request) {
  if (seat_.rank != 0) return;
  bool is_news = false;
  const auto take = [&](auto& asked, const auto& target) {
    if (target == std::decay_t<decltype(target)>{} || target == asked) return;
    asked = target;
    is_news = true;
  };
  take(asked_.workers, request.workers);
  take(asked_.per_worker, request.per_worker);
  take(asked_.learning_rate_factor, request.learning_rate_factor);
  take(asked_.topology, request.topology);
  take(asked_.synchronization, request.synchronization);
  if (is_news) reports_.send(request);
}

}  // namespace elastictrain::session
