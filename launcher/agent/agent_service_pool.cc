// Processes that are one worker after another: the rank of an MPI pool, and those of workers that a shrink has let go.
#include <algorithm>
#include <asio/error_code.hpp>

#include "launcher/agent/agent_service.h"
#include "launcher/agent/host_facts.h"
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
  reseat(std::move(parked_), id);
  return {};
}

void AgentService::reseat(std::unique_ptr<Worker> process, WorkerId id) {
  process->reseat(id, hooks_for(id));
  workers_[id] = std::move(process);
}

bool AgentService::take_warm_seat(const SpawnWorker& order) {
  auto process = warm_.take(order.slot);
  if (!process) return false;
  reseat(std::move(process), order.worker);
  warm_changed();
  return true;
}

WarmLimits AgentService::warm_limits() const {
  return {Milliseconds(bootstrap_.keep_warm_ms), host_facts().memory_bytes / 100 * bootstrap_.keep_warm_percent,
          Milliseconds(bootstrap_.grace_ms)};
}

void AgentService::on(const KeepWarm& order) {
  if (workers_.contains(order.worker) && bootstrap_.keep_warm_ms != 0) keep_.insert(order.worker);
}

void AgentService::on(const EndWarm& order) {
  warm_.end(order.worker);
}

void AgentService::warm_changed() {
  if (link_.up()) link_.send(WarmProcesses{warm_.list()});
  finish_if_empty();
}

void AgentService::parked(WorkerId id) {
  if (pool_) return park(id);
  Worker* worker = find(id);
  if (worker == nullptr) return;
  const bool stays = keep_.erase(id) != 0 && !worker->is_stopping() && !stopping_ && !leaving_;
  if (stays) return keep_warm(id);
  worker->end_in_background();
  worker->send(std::make_shared<const std::string>(encode_frame(WorkerDown(Dismiss{"it has left"}))));
}

// The process is in the list of warm ones before its worker is over, so that its slot never looks empty.
void AgentService::keep_warm(WorkerId id) {
  const auto place = workers_.find(id);
  std::unique_ptr<Worker> process = std::move(place->second);
  workers_.erase(place);
  Worker& kept = *process;
  warm_.keep(std::move(process));
  close_account(kept, {id, 0, 0, {}});
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
