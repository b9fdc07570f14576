// Takes over a run whose supervisor is gone: its key and port come from the record, its state from the journal; its
// agents reconnect by themselves.
#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/udp.hpp>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "launcher/process/process_identity.h"
#include "supervisor/journal_history.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/supervisor_impl.h"

namespace elastictrain {
namespace {

constexpr std::chrono::milliseconds kBindAgain{100};

std::string remedy(const std::string& run_name) {
  return "start a new run without --resume, or with another --name than " + run_name;
}

// A batch system may start the same command again on another machine.
bool is_of_this_machine(asio::io_context& io, const std::string& address) {
  asio::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  if (error) return false;
  asio::ip::udp::socket probe(io);
  const asio::ip::udp::endpoint endpoint(parsed, 0);
  probe.open(endpoint.protocol(), error);
  if (!error) probe.bind(endpoint, error);
  return !error;
}

void recall_view(policy::Runner& policy, const core::record::Observed& observed) {
  if (const auto view = policy::view_from_json(observed.view.text)) policy.replay(*view);
}

// Of the generation that trains on under the previous plan.
protocol::GenerationPlan recalled_plan(const core::Resumed& resumed) {
  protocol::GenerationPlan plan;
  plan.generation = resumed.generation;
  for (std::size_t rank = 0; rank < resumed.members.size(); ++rank) {
    protocol::Member& member = plan.members.emplace_back();
    member.worker = resumed.members[rank];
    if (rank < resumed.shares.size()) member.share = resumed.shares[rank];
  }
  return plan;
}

}  // namespace

// Under the claim: the data read before it may have changed meanwhile.
Status Supervisor::Impl::open_record() {
  if (options_.start == RunStart::kFresh) return {};
  auto record = load_run_record(directory_->path());
  if (!record.ok()) return record.error();
  const std::string& name = record->run_name;
  if (options_.start == RunStart::kStartAgain) return {};
  if (record->end) {
    return Error{ErrorCode::kUnavailable,
                 "run " + name + " has ended meanwhile: " + record->end->reason + "; " + remedy(name)};
  }
  if (record->version != ELASTICTRAIN_VERSION) {
    return Error{ErrorCode::kUnavailable, "run " + name + " was started by elastictrain " + record->version +
                                              ", this is " ELASTICTRAIN_VERSION "; resume it with that one"};
  }
  const auto& addresses = record->listen_addresses;
  const bool here = std::all_of(addresses.begin(), addresses.end(),
                                [this](const std::string& address) { return is_of_this_machine(io_, address); });
  if (here) {
    agents_.table().resume(record->key, record->port, addresses, record->advertise_addresses);
  } else {
    tell(core::Tell::Level::kWarning, "run " + name + " was supervised from another machine: its hosts cannot " +
                                          "reconnect to this one, and new agents are started");
  }
  return {};
}

// Agents that try to reconnect may hold the port for an instant.
Status Supervisor::Impl::listen_for_agents() {
  const auto deadline = std::chrono::steady_clock::now() + options_.settings.resume_timeout;
  for (;;) {
    Status opened = agents_.table().open();
    const bool again = options_.start == RunStart::kTakeOver && !opened.ok() &&
                       opened.error().code == ErrorCode::kUnavailable && std::chrono::steady_clock::now() < deadline;
    if (!again) return opened;
    std::this_thread::sleep_for(kBindAgain);
  }
}

// A run that cannot be taken over later still trains.
void Supervisor::Impl::save_record(std::optional<RunRecord::End> end) {
  const AgentTableOptions& agents = agents_.table().options();
  const bool is_over = end && end->exit_status == 0 && !end->can_continue && !options_.ended_config.empty();
  const std::string& config = is_over ? options_.ended_config : options_.recorded_config;
  const Status saved =
      save_run_record(directory_->path(),
                      {options_.settings.run_name, ELASTICTRAIN_VERSION, agents.bootstrap.key, agents_.table().port(),
                       agents.listen.addresses, agents.bootstrap.addresses, config, std::move(end)});
  if (saved.ok()) return;
  tell(core::Tell::Level::kWarning, saved.error().message + "; this run cannot be resumed");
}

core::record::RunClosed Supervisor::Impl::closing_record() const {
  core::record::RunClosed closed{exit_status_, end_reason_, progress_.step(), std::nullopt};
  const double loss = progress_.loss();
  if (loss != 0 && std::isfinite(loss)) closed.loss = loss;
  return closed;
}

RunRecord::End Supervisor::Impl::end_record() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.exit_status = exit_status_,
          .reason = end_reason_,
          .ended_unix_s = std::chrono::duration<double>(now).count(),
          .uptime_s = up_s(),
          .workers = last_size_,
          .epoch = progress_.newest().epoch,
          .step = progress_.step(),
          .loss = closing_record().loss.value_or(0),
          .can_continue = can_continue()};
}

// The journal as an earlier supervisor left it: for the core, and for the display of this run.
Status Supervisor::Impl::look_back() {
  auto replayed = replay_journal(directory_->journal_path(), launcher::boot_id());
  if (!replayed.ok()) return replayed.error();
  resumed_ = std::move(*replayed);
  if (options_.start == RunStart::kStartAgain) {
    resumed_->agents.clear();
    resumed_->workers.clear();
    resumed_->finished.clear();  // what they had is lost where no checkpoint holds it
    resumed_->unsettled = true;
    resumed_->refused.reset();
    resumed_->lease.slots = 0;
    resumed_->target = options_.cluster == nullptr ? options_.settings.start_workers : options_.settings.max_workers;
    resumed_->target_reason = "the size to start with";
  }
  std::string owner;
  const auto history = read_journal_lines(directory_->journal_path(), [this, &owner](const JournalLine& line) {
    if (!line.record) return;
    const core::Record& record = *line.record;
    if (const auto* opened = record.as<core::record::RunOpened>()) owner = opened->run;
    const auto* continued = record.as<core::record::RunResumed>();
    if (continued != nullptr && continued->anew.value_or(false)) life_began_s_ = line.up_s.value_or(0);
    if (const auto* idle = record.as<core::record::Idle>()) idle_times_.recall(idle->idle_ms / 1e3);
    if (const auto* observed = record.as<core::record::Observed>()) recall_view(policy_, *observed);
    recoveries_.take(record, line.up_s.value_or(0));
    checkpoints_.take(record, std::nullopt);
    trained_ = trained_ || record.is<core::record::Active>();
    if (options_.on_journal) options_.on_journal(record);
  });
  if (!history.ok()) return history.error();
  if (!owner.empty() && owner != options_.settings.run_name) {
    return Error{ErrorCode::kMismatch, directory_->journal_path() + " is the journal of run " + owner +
                                           ", not of run " + options_.settings.run_name +
                                           ": put the right file in its place, or " +
                                           remedy(options_.settings.run_name)};
  }
  up_before_s_ = history->up_s;
  if (options_.start == RunStart::kStartAgain) life_began_s_ = up_before_s_;
  return {};
}

void Supervisor::Impl::go_on() {
  if (!resumed_) return;
  core::Resumed resumed = std::move(*std::exchange(resumed_, std::nullopt));
  for (const auto& agent : resumed.agents) {
    if (agent.drained) continue;
    agents_.adopt(agent.agent, agent.host);
    groups_.begun(agent.host);
  }
  workers_.restore(resumed);
  cluster_.take_over(resumed);
  const protocol::GenerationPlan plan = recalled_plan(resumed);
  policy_.planned(plan);
  cluster_.planned(plan);
  feed(std::move(resumed));
}

}  // namespace elastictrain
