#include <algorithm>
#include <asio/error_code.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "supervisor/control/control_request.h"
#include "supervisor/control/run_status.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/supervisor_impl.h"

// Translates messages and events of agents, hosts, users and timers into events of the core.

namespace elastictrain {
namespace {

constexpr std::chrono::seconds kRejectionPeriod{1};  // of reports of refused connections
constexpr std::size_t kMaxWaitingRequests = 256;

}  // namespace

// An action may cause an event at once; events are processed one after the other, each with all its actions.
void Supervisor::Impl::feed(core::Event event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  while (!events_.empty()) {
    const core::Event next = std::move(events_.front());
    events_.pop_front();
    perform(membership_.step(next, clock_now()));
  }
  stepping_ = false;
}

void Supervisor::Impl::agent_connected(AgentId agent, const protocol::AgentHello& hello) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto here_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  journal(core::record::AgentHello{.agent = agent,
                                   .host_name = hello.host_name,
                                   .pid = hello.pid,
                                   .cores = hello.cores,
                                   .memory_bytes = hello.memory_bytes,
                                   .clock_difference_us = hello.wall_clock_us - here_us});
  if (first_agent_.value == 0) first_agent_ = agent;
  if (hello.gpus > 0 && !options_.gpu_protection.empty() && !std::exchange(has_gpus_, true)) {
    tell(core::Tell::Level::kInfo, options_.gpu_protection);
  }
  cluster_.agent_back(agent, hello.workers, hello.warm);
  feed(core::AgentConnected{agent, hello.workers, hello.warm});
}

void Supervisor::Impl::agent_lost(AgentId agent, const std::string& reason, core::LossEvidence evidence) {
  cluster_.agent_lost(agent, evidence);
  feed(core::AgentLost{agent, reason, evidence});
  // An agent that only lost its connection may come back with them.
  if (evidence != core::LossEvidence::kConnection || agents_.is_stopping(agent)) workers_.remove_all_of(agent);
}

void Supervisor::Impl::on_agent_message(AgentId agent, protocol::AgentUp message) {
  const auto take = [&](auto& content) {
    using Content = std::decay_t<decltype(content)>;
    // Where a worker lies on several hosts, the groups of agents take it.
    constexpr bool is_for_groups = std::is_same_v<Content, protocol::ReplicaListens>;
    if constexpr (!is_for_groups && !std::is_same_v<Content, protocol::AgentHello>) on(agent, content);
  };
  std::visit(take, message);
}

// An agent may report only about its own workers.
bool Supervisor::Impl::owns(AgentId agent, WorkerId worker) {
  const WorkerEntry* entry = workers_.find(worker);
  if (entry != nullptr && entry->agent == agent) return true;
  if (entry != nullptr)
    agents_.drop(agent, "it reported about " + to_string(worker) + ", which runs on " + entry->host);
  return false;
}

void Supervisor::Impl::on(AgentId agent, protocol::WorkerSpawned& message) {
  if (!owns(agent, message.worker)) return;
  workers_.set_pid(message.worker, message.pid);
  journal(core::record::Spawned{message.worker, message.pid});
}

void Supervisor::Impl::on(AgentId agent, protocol::WorkerSpawnFailed& message) {
  if (!owns(agent, message.worker)) return;
  feed(core::WorkerSpawnFailed{message.worker, std::move(message.reason), message.exit_status});
  workers_.remove(message.worker);
  cluster_.ended(message.worker, agent);
}

void Supervisor::Impl::on(AgentId agent, protocol::WorkerExited& message) {
  cluster_.ended(message.worker, agent);
  if (!owns(agent, message.worker)) return;
  feed(core::WorkerExited{message.worker, message.exit_code, message.signal, std::move(message.last_error_lines),
                          message.out_of_memory, message.memory_limit_bytes, message.peak_bytes});
  workers_.remove(message.worker);
}

void Supervisor::Impl::on(AgentId agent, protocol::WorkerOutput& message) {
  if (!owns(agent, message.worker) || !options_.on_output) return;
  const WorkerEntry& entry = *workers_.find(message.worker);
  OutputLine line{message.worker,    entry.host, entry.rank, entry.local_rank, workers_.generation(), entry.pid,
                  message.is_stderr, false,      {}};
  if (message.dropped > 0) {
    line.text = "[" + protocol::counted(message.dropped, "line was", "lines were") +
                " dropped here: written faster than they were read]";
    options_.on_output(line);
  }
  for (std::string& text : message.lines) {
    line.text = std::move(text);
    options_.on_output(line);
  }
  if (message.unfinished.empty()) return;
  line.is_unfinished = true;
  line.text = std::move(message.unfinished);
  options_.on_output(line);
}

void Supervisor::Impl::on(AgentId agent, protocol::FromWorker& message) {
  if (!owns(agent, message.worker) || take_for_board(message.worker, message.message)) return;
  if (const auto* swap = std::get_if<protocol::WorkerSwap>(&message.message)) {
    note_idle(idle_times_.measured(message.worker, *swap));
  } else if (const auto* hello = std::get_if<protocol::WorkerHello>(&message.message)) {
    workers_.adopt_pid(message.worker, hello->pid);
  } else if (const auto* audit = std::get_if<protocol::WorkerAudit>(&message.message)) {
    audits_->append(message.worker, *audit);
  }
  feed(core::WorkerMessage{message.worker, std::move(message.message)});
}

void Supervisor::Impl::on(AgentId agent, protocol::AgentReport& message) {
  for (const protocol::WorkerSample& sample : message.workers) {
    if (!owns(agent, sample.worker)) continue;
    progress_.on_heartbeat(sample.heartbeat);
    policy_.on_heartbeat(sample.worker, sample.heartbeat, up_s());
    policy_.on_cpu_time(sample.worker, sample.cpu_ms, up_s());
    cluster_.on_heartbeat(sample.worker, sample.heartbeat);
  }
  feed(core::AgentReported{agent, std::move(message)});
  consult_policy();
  figures_changed(false);
}

// An agent of a run gets no questions about its host; an answer without a question changes nothing.
void Supervisor::Impl::on(AgentId, protocol::HostFacts&) {}
void Supervisor::Impl::on(AgentId, protocol::AcceleratorFacts&) {}

void Supervisor::Impl::on(AgentId agent, protocol::HostNotice& message) {
  feed(core::HostNoticed{agent, std::move(message.reason)});
}

void Supervisor::Impl::on(AgentId agent, protocol::WarmProcesses& message) {
  cluster_.warm(agent, message.processes);
  feed(core::WarmReported{agent, std::move(message.processes)});
}

// The worker may have exited since the question.
void Supervisor::Impl::on(AgentId agent, protocol::AgentAnswer& message) {
  if (workers_.find(message.worker) != nullptr && !owns(agent, message.worker)) return;
  feed(core::AgentAnswered{agent, std::move(message)});
}

void Supervisor::Impl::reject_connection(const std::string& address, const std::string& reason) {
  rejections_.add(address, reason);
  if (std::exchange(rejections_scheduled_, true)) return;
  rejections_timer_.expires_after(kRejectionPeriod);
  rejections_timer_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (error || life.expired()) return;
    rejections_scheduled_ = false;
    rejections_.end_period();
  });
}

void Supervisor::Impl::connection_rejected(const std::string& address, const std::string& reason, std::uint64_t times) {
  journal(core::record::ConnectionRejected{address, reason, times});
  const std::string who = times == 1 ? "a connection from " + address
                                     : std::to_string(times) + " more connections, the last from " + address + ",";
  tell(core::Tell::Level::kWarning, "refused " + who + ": " + reason);
}

void Supervisor::Impl::hosts_offered(const std::vector<launcher::Host>& hosts) {
  if (options_.hosts_per_replica > 1) {
    offered_ = hosts;
    grouped_.clear();
    return offer_hosts();
  }
  core::HostsOffered offered;
  for (const launcher::Host& host : hosts) offered.hosts.push_back({host.name, host.slots});
  feed(std::move(offered));
}

// In groups. An empty list is news too: the run's time to start runs from then on.
void Supervisor::Impl::offer_hosts() {
  const auto offer = groups_.offer(*offered_, std::chrono::steady_clock::now());
  tell_left_over(offer);
  core::HostsOffered offered;
  for (const launcher::Host& group : offer.groups) offered.hosts.push_back({group.name, group.slots});
  if (!grouped_.empty() && grouped_ == offered.hosts) return;
  grouped_ = offered.hosts;
  feed(std::move(offered));
}

void Supervisor::Impl::tell_left_over(const HostGroups::Offer& offer) {
  if (std::exchange(left_over_, offer.left_over) == offer.left_over || offer.left_over.empty()) return;
  std::string names;
  for (const std::string& host : offer.left_over) names += (names.empty() ? "" : ", ") + host;
  const std::string size = "workers.hosts_per_replica = " + std::to_string(options_.hosts_per_replica);
  const bool is_one = offer.left_over.size() == 1;
  const std::string there = protocol::counted(offered_->size(), "host is", "hosts are");
  const auto level = offer.groups.empty() ? core::Tell::Level::kWarning : core::Tell::Level::kInfo;
  tell(level, offer.groups.empty() ? size + ", and " + there + " offered: " + names
                                   : std::string(is_one ? "host " : "hosts ") + names + (is_one ? " is" : " are") +
                                         " not used: " + size + ", and the others are in use");
}

// A host that was lost leaves its group if the others can be grouped without it.
void Supervisor::Impl::look_at_groups(const core::Record& record) {
  if (options_.hosts_per_replica == 1) return;
  const auto now = std::chrono::steady_clock::now();
  if (const auto* connected = record.as<core::record::AgentConnected>()) {
    for (const std::string& host : hosts_of_group(connected->host)) groups_.works(host);
  } else if (const auto* lost = record.as<core::record::AgentLost>()) {
    for (const std::string& host : agents_.give_up(lost->agent)) groups_.failed(host, now);
    groups_.ended(lost->host);
  } else if (const auto* ended = record.as<core::record::AgentEnded>()) {
    groups_.ended(ended->host);
  } else {
    return;
  }
  if (offered_ && !ended_) offer_hosts();
}

// A user names hosts as they are.
void Supervisor::Impl::name_group(core::Event& request) const {
  std::string* host = nullptr;
  if (auto* replace = std::get_if<core::ReplaceHost>(&request)) host = &replace->host;
  if (auto* drain = std::get_if<core::DrainHost>(&request)) host = &drain->host;
  if (auto* undrain = std::get_if<core::UndrainHost>(&request)) host = &undrain->host;
  if (host != nullptr && options_.hosts_per_replica > 1) *host = groups_.group_of(*host).value_or(*host);
}

void Supervisor::Impl::stop_now(core::StopCause cause) {
  if (ended_) {
    hurry_ = true;
    return;
  }
  feed(core::StopNow{cause});
}

void Supervisor::Impl::kill_now() {
  stop_now();
  for (const auto& [worker, entry] : workers_.entries()) send_to_worker(worker, protocol::StopWorker{worker, 0});
}

void Supervisor::Impl::forward_signal(int signal) {
  for (int listed : options_.forward_signals) {
    if (listed != signal) continue;
    for (const auto& [worker, entry] : workers_.entries()) {
      const protocol::AgentDown order = protocol::SignalWorker{worker, signal};
      agents_.send_to_all_hosts(entry.agent, protocol::encode_frame(order));
    }
    break;
  }
  if (signal == SIGUSR1 && options_.usr1_drains) request_stop(core::StopCause::kPreempted);
}

void Supervisor::Impl::request(const std::string& line, control::ControlServer::Answer answer) {
  const std::uint64_t id = ++last_request_;
  auto parsed = control::parse_request(line, id);
  if (!parsed.ok()) return answer(control::answer_line(false, parsed.error().message));
  if (std::holds_alternative<control::StatusRequest>(*parsed)) {
    const std::string protection = options_.protection + (has_gpus_ ? "; " + options_.gpu_protection : "");
    return answer(control::status_answer(
        figures(), {journal_->path(), protection, options_.per_replica, workers_.pids(), clock_now()}));
  }
  if (ended_) return answer(control::answer_line(false, "the run is ending"));
  if (std::holds_alternative<control::StopNowRequest>(*parsed)) {
    answer(control::answer_line(true, "stopping the workers now"));
    request_stop(core::StopCause::kUser);  // a run that is ending already keeps its own reason
    return stop_now(core::StopCause::kUser);
  }
  if (requests_.size() >= kMaxWaitingRequests) {
    return answer(control::answer_line(false, "too many requests are pending; try again later"));
  }
  requests_.emplace(id, std::move(answer));
  core::Event event = std::get<core::Event>(std::move(*parsed));
  name_group(event);
  feed(std::move(event));
}

// The board of the workers: it lives as long as the run, also through a supervisor that is lost.
namespace {

// Answers for an agent wait while this much is on its way to it: values for many workers must not fill its queue.
constexpr std::size_t kMostOnTheWayBytes = 16U << 20;
constexpr std::chrono::milliseconds kLookAgain{20};

}  // namespace

void Supervisor::Impl::open_board() {
  const auto path = std::filesystem::path(journal_->path()).parent_path() / "board";
  board_file_ = std::make_unique<BoardFile>(
      path.string(), [this](const std::string& text) { tell(core::Tell::Level::kWarning, text); });
  if (options_.start == RunStart::kTakeOver) return board_file_->load(board_);
  board_file_->remove();
}

bool Supervisor::Impl::take_for_board(WorkerId worker, const protocol::WorkerUp& message) {
  const auto* get = std::get_if<protocol::BoardGet>(&message);
  const auto* put = std::get_if<protocol::BoardPut>(&message);
  if (get == nullptr && put == nullptr) return false;
  if (get != nullptr) board_.get(worker, *get, clock_now());
  if (put != nullptr) put_on_board(worker, *put);
  answer_from_board();
  return true;
}

void Supervisor::Impl::put_on_board(WorkerId worker, const protocol::BoardPut& put) {
  bool is_new = false;
  protocol::BoardAnswer answered{.number = put.number, .problem = board_.put(worker, put, is_new)};
  if (is_new) board_file_->append(worker, put, board_);
  answer(worker, std::move(answered));
}

void Supervisor::Impl::answer_from_board() {
  for (;;) {
    // One at a time: each counts for what is on the way.
    auto due = board_.take_answer(clock_now(), [this](WorkerId worker) { return may_answer(worker); });
    if (!due) break;
    answer(due->worker, std::move(due->content));
  }
  await_board();
}

bool Supervisor::Impl::may_answer(WorkerId worker) const {
  const WorkerEntry* entry = workers_.find(worker);
  const auto* connection = entry == nullptr ? nullptr : agents_.connection_of(entry->agent);
  return connection == nullptr || connection->queued_bytes() < kMostOnTheWayBytes;
}

void Supervisor::Impl::answer(WorkerId worker, protocol::BoardAnswer content) {
  send_to_worker(worker, protocol::ToWorkers{{worker}, std::move(content)});
}

void Supervisor::Impl::await_board() {
  const auto deadline = board_.next_deadline();
  if (!deadline) return;
  board_timer_.expires_at(std::max(*deadline, clock_now() + kLookAgain));
  board_timer_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (!error && !life.expired() && !ended_) answer_from_board();
  });
}

}  // namespace elastictrain
