// The part of an agent that is a rank of an MPI pool: one process, which is one worker after another.
#include <algorithm>
#include <asio/error_code.hpp>

#include "launcher/agent/agent_service.h"
#include "supervisor/protocol/codec.h"

namespace elastictrain::launcher {

using namespace protocol;

namespace {

constexpr const char* kSpent = "its MPI rank is used up: the process has exited, and MPI accepts no new process";
// Between Dismiss and TERM, so that a parked process can leave MPI together with the others.
constexpr std::chrono::milliseconds kDismissTime{3'000};

}  // namespace

std::vector<std::string> AgentService::pool_environment() const {
  if (!pool_ || !pool_->local_rank) return {};
  // The supervisor treats every rank as a host of its own; for GPUs and processors the machine's slots count.
  const std::string place = std::to_string(*pool_->local_rank);
  const std::string places = std::to_string(std::max(pool_->local_ranks, *pool_->local_rank + 1));
  return {"LOCAL_RANK=" + place, "ELASTICTRAIN_SLOT=" + place, "ELASTICTRAIN_SLOTS=" + places};
}

Status AgentService::take_seat(SpawnWorker& order) {
  if (rank_is_spent_) return Error{ErrorCode::kUnavailable, kSpent};
  const WorkerId id = order.worker;
  parked_->reseat(id, hooks_for(id));
  workers_[id] = std::move(parked_);
  return {};
}

void AgentService::park(WorkerId id) {
  const auto place = workers_.find(id);
  if (place == workers_.end()) return;
  close_account(*place->second, {id, 0, 0, {}});
  parked_ = std::move(place->second);
  workers_.erase(place);
  parked_->park(
      {[](const WorkerToAgent&) {}, [] {}, [this](const WorkerExited&) { parked_ended(); }, [] { return true; }});
  if (stopping_ || leaving_) dismiss_parked(Milliseconds(bootstrap_.grace_ms));
}

// Sent before the worker's exit, so that no new worker is placed here.
void AgentService::spend_rank(const Worker& worker) {
  rank_is_spent_ = true;
  const bool in_order = !worker.is_elastic() || worker.has_finished() || stopping_ || leaving_;
  if (!in_order) notice(kSpent);
}

void AgentService::parked_ended() {
  parked_.reset();
  rank_is_spent_ = true;
  if (!stopping_ && !leaving_) notice(kSpent);
  finish_if_empty();
}

void AgentService::dismiss_parked(Milliseconds grace) {
  if (!parked_) return;
  parked_->send(std::make_shared<const std::string>(encode_frame(WorkerDown(Dismiss{"the run ends"}))));
  const Milliseconds patience = std::min(kDismissTime, grace / 2);
  parked_timer_.expires_after(patience);
  parked_timer_.async_wait([this, rest = grace - patience](const asio::error_code& error) {
    if (!error && parked_) parked_->stop(rest);
  });
}

}  // namespace elastictrain::launcher
