#include "launcher/agent/agent_service.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/post.hpp>
#include <cstdio>
#include <random>
#include <utility>

#include "launcher/agent/accelerator_probe.h"
#include "launcher/agent/binding.h"
#include "launcher/agent/helper_processes.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/worker_queries.h"
#include "launcher/agent_program.h"
#include "launcher/nccl_settings.h"
#include "launcher/process/process_attributes.h"
#include "launcher/process/process_identity.h"
#include "launcher/process/session_sweep.h"
#include "launcher/text.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::launcher {
namespace {

using namespace protocol;

// While this much is queued for the supervisor, output stays in the workers' buffers and messages in their sockets.
constexpr std::size_t kOutputBacklogBytes = 1u << 20;
constexpr std::size_t kMessageBacklogBytes = 16u << 20;
// Values for the board beyond it end here, and their workers send them again: a frame of each worker may already be
// read.
constexpr std::size_t kBoardBacklogBytes = 2 * kMessageBacklogBytes;
// Of one worker between two reports; it waits with the rest, so that no worker holds up the messages of the others.
constexpr std::uint32_t kMaxMessagesPerReport = 2'000;
constexpr std::size_t kOutputBatchBytes = 64u << 10;
constexpr std::chrono::milliseconds kOutputPeriod{20};
constexpr std::size_t kMaxEnded = 4096;
constexpr std::size_t kMaxLateOutputBytes = 16u << 20;
// Part of the grace of workers that were asked to leave: between TERM and KILL.
constexpr std::chrono::milliseconds kLastGrace{2'000};

std::string random_hex() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", random());
    text += part;
  }
  return text;
}

// The workers of a pool have one agent each.
std::string host_key(bool is_pool) {
  std::string key = is_pool ? machine_key() : "";
  return key.empty() ? random_hex() : key;
}

}  // namespace

AgentService::AgentService(asio::io_context& io, AgentBootstrap bootstrap, PrivateDirectory directory,
                           Guardian guardian, std::optional<MpiPlace> pool)
    : io_(io),
      bootstrap_(std::move(bootstrap)),
      directory_(std::move(directory)),
      host_key_(host_key(pool.has_value())),
      self_path_(self_path()),
      link_(io, bootstrap_,
            {[this] { went_up(); }, [this](AgentDown order) { perform(std::move(order)); },
             [this](const Error& error) { went_away(error); }, [this](const Error& error) { is_gone(error); }}),
      pool_(std::move(pool)),
      warm_(io, warm_limits(), [this] { warm_changed(); }),
      probe_(io, probe_setup(), {[this](const std::string& reason) { notice(reason); }, say}),
      guardian_(guardian),
      signals_(io, SIGTERM, SIGINT),
      tick_timer_(io),
      output_timer_(io),
      leave_timer_(io),
      parked_timer_(io) {
  // MPICH's launcher sends it to every rank when another one has ended.
  if (bootstrap_.usr1_is_notice && !pool_) signals_.add(SIGUSR1);
}

AgentService::~AgentService() = default;

void AgentService::say(const std::string& text) {
  std::fprintf(stderr, "elastictrain agent: %s\n", text.c_str());
}

void AgentService::start() {
  wait_for_signal();
  link_.start();
}

// ---------------------------------------------------------------------------------------------------------------
// The connection

void AgentService::went_up() {
  link_.send(hello());
  if (!notice_.empty()) link_.send(HostNotice{notice_});
  if (report_sequence_ > 0) return resync();
  // The launcher that started the agent reads this line.
  std::printf("%s%u\n", kConnectedLine, bootstrap_.agent.value);
  std::fflush(stdout);
  // An mpirun whose reader is gone ends all processes at the next line.
  if (pool_) point_at_null({STDOUT_FILENO, STDERR_FILENO});
  probe_.start();
  tick();
}

AgentHello AgentService::hello() const {
  const HostFacts facts = host_facts();
  AgentHello hello{
      limits::kProtocolVersion, facts.binary_version, bootstrap_.agent, host_name(), ::getpid(), facts.cores,
      facts.memory_bytes,       facts.wall_clock_us};
  for (const auto& [id, worker] : workers_) hello.workers.push_back(id);
  for (const auto& [id, starting] : starting_) hello.workers.push_back(id);
  hello.warm = warm_.list();
  hello.gpus = static_cast<std::uint32_t>(facts.gpus.size());
  return hello;
}

// Repeating all of it is safe: messages that the supervisor processed before the connection broke arrive again.
void AgentService::resync() {
  for (const auto& [id, worker] : workers_) {
    link_.send(WorkerSpawned{id, worker->pid()});
    tell_address(*worker);
    send_all(id, worker->record().resync(next_report()));
  }
  for (Ended& ended : ended_) {
    send_all(ended.exited.worker, ended.record.resync(next_report()));
    for (const auto& output : ended.output) link_.send(output);
    ended.output.clear();
    link_.send(ended.exited);
  }
  late_output_bytes_ = 0;
  schedule_output();
}

void AgentService::send_all(WorkerId worker, const std::vector<WorkerUp>& messages) {
  for (const auto& message : messages) link_.send(FromWorker{worker, message});
}

void AgentService::went_away(const Error& error) {
  say("lost the supervisor (" + error.message + "); the workers continue for " +
      protocol::duration_text(std::chrono::milliseconds(bootstrap_.orphan_grace_ms)));
}

void AgentService::is_gone(const Error& error) {
  say("cannot reach the supervisor at " + join_with_commas(bootstrap_.addresses) + " port " +
      std::to_string(bootstrap_.port) + ": " + error.message);
  tell_orphans(error.message);
  leave(kAgentUnreachable);
}

// They leave at a step boundary, with a checkpoint; a program that does not use the library gets TERM from leave().
void AgentService::tell_orphans(const std::string& reason) {
  const auto frame = std::make_shared<const std::string>(encode_frame(WorkerDown(Orphaned{reason})));
  for (const auto& [id, worker] : workers_) {
    if (worker->is_elastic()) worker->send(frame);
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Orders

void AgentService::perform(AgentDown order) {
  std::visit([this](auto& alternative) { on(alternative); }, order);
}

void AgentService::on(const SignalWorker& order) {
  WorkerProcess* worker = find(order.worker);
  if (worker != nullptr && order.signal > 0 && order.signal < NSIG) worker->signal(order.signal);
}

void AgentService::on(const StopWorker& order) {
  if (WorkerProcess* worker = find(order.worker)) worker->stop(Milliseconds(order.grace_ms));
  cancel_start(order.worker, "it was stopped before it started");
}

void AgentService::on(const ToWorkers& order) {
  const auto frame = std::make_shared<const std::string>(encode_frame(order.message));
  for (const WorkerId id : order.workers) {
    if (WorkerProcess* worker = find(id)) worker->send(frame);
  }
}

void AgentService::on(const StopAgent& order) {
  stop(Milliseconds(order.grace_ms), kAgentStopped);
}

void AgentService::on(const SupervisorHeartbeat& heartbeat) {
  // One that was never sent acknowledges nothing: what is kept for the next supervisor stays.
  if (heartbeat.acknowledged_report > report_sequence_) return;
  for (const auto& [id, worker] : workers_) worker->record().acknowledged(heartbeat.acknowledged_report);
  for (Ended& ended : ended_) ended.record.acknowledged(heartbeat.acknowledged_report);
}

void AgentService::on(const CheckHost& order) {
  HostFacts facts = host_facts();
  if (const auto addresses = data_addresses()) {
    facts.addresses = *addresses;
    facts.interface = interface_of(addresses->front());
  } else {
    facts.interface_problem = addresses.error().message;
  }
  facts.nccl_interface =
      value_of(with_nccl_settings(merge_environment(own_environment(), order.environment), bootstrap_.interface, ""),
               "NCCL_SOCKET_IFNAME")
          .value_or("");
  const ProgramFacts program = program_facts(order.argv, merge_environment(own_environment(), order.environment),
                                             order.working_directory, order.files);
  facts.program_problem = program.problem;
  facts.program_status = program.exit_status;
  facts.missing_file = program.missing_file;
  facts.interpreter = program.interpreter;
  link_.send(facts);
  probe_accelerators(io_, self_path_, order.environment, Milliseconds(order.time_limit_ms),
                     [this](AcceleratorFacts found) { link_.send(found); });
}

void AgentService::on(const AskAgent& order) {
  answer_question(io_, order, workers_, [this, question = order.question, id = order.worker](auto lines) {
    link_.send(AgentAnswer{question, id, std::move(lines)});
  });
}

WorkerProcess* AgentService::find(WorkerId worker) {
  const auto place = workers_.find(worker);
  return place == workers_.end() ? nullptr : place->second.get();
}

// ---------------------------------------------------------------------------------------------------------------
// Messages and exits of workers

WorkerHooks AgentService::hooks_for(WorkerId worker) {
  return {[this, worker](WorkerToAgent message) { on_worker_message(worker, std::move(message)); },
          [this] { schedule_output(); }, [this](const WorkerExited& exited) { worker_ended(exited); },
          [this, worker] { return may_read(worker); }};
}

bool AgentService::may_read(WorkerId id) {
  WorkerProcess* worker = find(id);
  const bool has_its_share = worker != nullptr && worker->record().taken() >= kMaxMessagesPerReport;
  return !has_its_share && link_.queued_bytes() < kMessageBacklogBytes;
}

void AgentService::on_worker_message(WorkerId id, WorkerToAgent message) {
  WorkerProcess* worker = find(id);
  if (worker == nullptr) return;
  // Deferred: the call comes from inside the worker.
  if (std::holds_alternative<WorkerParked>(message)) return asio::post(io_, [this, id] { parked(id); });
  // It has joined MPI, and so have all other ranks: none needs the launch any more.
  if (pool_ && !pool_->ends_with_launch && std::holds_alternative<WorkerReady>(message)) outlive_launch_proxy();
  if (std::holds_alternative<WorkerReady>(message)) worker->end_background();
  if (std::holds_alternative<WorkerLeft>(message) && !pool_ && !keep_.contains(id)) worker->end_in_background();
  if (std::holds_alternative<BoardPut>(message) && link_.queued_bytes() >= kBoardBacklogBytes) return;
  auto forwarded = worker->record().take(std::move(message), std::chrono::steady_clock::now(), next_report());
  if (forwarded) link_.send(FromWorker{id, std::move(*forwarded)});
}

void AgentService::worker_ended(const WorkerExited& exited) {
  ET_CHECK(workers_.contains(exited.worker), "a worker ends once");
  WorkerProcess& worker = *workers_.at(exited.worker);
  if (pool_) spend_rank(worker);
  keep_.erase(exited.worker);
  lost_workers_ += worker.record().is_ready() ? 1 : 0;
  close_account(worker, exited);
  workers_.erase(exited.worker);
  finish_if_empty();
}

void AgentService::close_account(WorkerProcess& worker, const WorkerExited& exited) {
  send_report();
  Ended ended{.exited = exited};
  // The rest of its output is sent however much is queued: it is bounded, and nothing may follow the exit.
  if (link_.up()) {
    while (send_next_batch(worker)) {
    }
  } else {
    keep_output(worker, ended);
  }
  link_.send(exited);
  ended.record = worker.take_record();
  ended_.push_back(std::move(ended));
  if (ended_.size() > kMaxEnded) ended_.pop_front();
}

void AgentService::keep_output(WorkerProcess& worker, Ended& ended) {
  std::uint64_t dropped = 0;
  for (WorkerOutput output; worker.take_output(kOutputBatchBytes, output);) {
    if (late_output_bytes_ >= kMaxLateOutputBytes) {
      dropped += output.lines.size() + output.dropped;
      continue;
    }
    late_output_bytes_ += kOutputBatchBytes;
    ended.output.push_back(std::move(output));
  }
  if (dropped > 0) ended.output.push_back({worker.id(), false, {}, dropped, {}});
}

void AgentService::schedule_output() {
  if (std::exchange(output_scheduled_, true)) return;
  output_timer_.expires_after(kOutputPeriod);
  output_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    output_scheduled_ = false;
    send_output();
  });
}

// In rounds, so that one worker with much output does not delay the lines of the others.
void AgentService::send_output() {
  bool more = link_.up();
  while (more && link_.queued_bytes() < kOutputBacklogBytes) {
    more = false;
    for (const auto& [id, worker] : workers_) more = send_next_batch(*worker) || more;
  }
  if (more) schedule_output();
}

bool AgentService::send_next_batch(WorkerProcess& worker) {
  WorkerOutput output;
  if (!worker.take_output(kOutputBatchBytes, output)) return false;
  link_.send(output);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------
// Reports, signals, the end

void AgentService::tick() {
  guardian_.sign_of_life();
  send_report();
  for (const auto& [id, worker] : workers_) worker->look_at_memory();
  warm_.look_at_memory();
  reap_adopted();
  tick_timer_.expires_after(Milliseconds(std::max<std::uint64_t>(bootstrap_.heartbeat_ms, 1)));
  tick_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

void AgentService::send_report() {
  AgentReport report{++report_sequence_, {}};
  for (const auto& [id, worker] : workers_) worker->record().report_begins();
  if (!link_.up()) return;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [id, worker] : workers_) {
    ProcessSample process_sample;
    // A part is silent; that it is stopped explains why its worker is.
    if (worker->is_part()) {
      const auto stat = read_process_stat(worker->pid());
      if (stat && stat->stopped()) report.workers.push_back({id, 0, {}, stat->cpu_ms, true});
      continue;
    }
    if (worker->is_elastic()) {
      if (const auto stat = read_process_stat(worker->training_pid())) process_sample = {stat->cpu_ms, stat->stopped()};
    }
    auto sample = worker->record().sample(id, now, Milliseconds(2 * bootstrap_.heartbeat_ms), process_sample);
    if (sample) report.workers.push_back(std::move(*sample));
  }
  link_.send(report);
}

void AgentService::wait_for_signal() {
  signals_.async_wait([this](const asio::error_code& error, int number) {
    if (error) return;
    got_signal(number);
    if (!finished_) wait_for_signal();
  });
}

// TERM: this host is being shut down. INT, or a second TERM: stop at once. USR1: the host's time is about to be up.
void AgentService::got_signal(int number) {
  if (number == SIGUSR1) return notice("its agent got signal USR1");
  if (number == SIGTERM && !leaving_ && !stopping_) {
    say("got TERM; the workers leave within " +
        protocol::duration_text(std::chrono::milliseconds(bootstrap_.grace_ms)));
    notice("its agent got signal TERM");
    return leave(kAgentStopped);
  }
  say("stopping on signal " + std::to_string(number));
  stop(leaving_ ? kLastGrace : Milliseconds(bootstrap_.grace_ms), kAgentStopped);
}

NoticeProbe::Setup AgentService::probe_setup() const {
  return {bootstrap_.notice_probe,
          Milliseconds(bootstrap_.notice_probe_ms),
          {"ELASTICTRAIN_JOB_ID=" + bootstrap_.run_name, "ELASTICTRAIN_HOST=" + bootstrap_.host}};
}

void AgentService::notice(const std::string& reason) {
  if (!notice_.empty()) return;
  notice_ = reason;
  say("this host is going away: " + reason);
  link_.send(HostNotice{reason});
}

// Elastic workers leave when they are told to (by the supervisor's plan, or as orphans); other programs get TERM now.
void AgentService::leave(int exit_status) {
  leaving_ = true;
  exit_status_ = exit_status;
  const Milliseconds grace(bootstrap_.grace_ms);
  const Milliseconds last = std::min(kLastGrace, grace / 2);
  for (const auto& [id, worker] : workers_) {
    // A part ends with its worker.
    if (!worker->is_elastic() && !worker->is_part()) worker->stop(grace);
  }
  cancel_starts();
  dismiss_parked(grace);
  warm_.end_all(grace);
  leave_timer_.expires_after(grace - last);
  leave_timer_.async_wait([this, last, exit_status](const asio::error_code& error) {
    if (!error && !finished_) stop(last, exit_status);
  });
  finish_if_empty();
}

void AgentService::stop(Milliseconds grace, int exit_status) {
  if (!std::exchange(stopping_, true) && !leaving_) exit_status_ = exit_status;
  for (const auto& [id, worker] : workers_) worker->stop(grace);
  cancel_starts();
  dismiss_parked(grace);
  warm_.end_all(grace);
  finish_if_empty();
}

void AgentService::finish_if_empty() {
  // The hosts of a group are released together, when the processes on all of them have ended.
  const bool is_awaited = is_of_group_ && link_.up() && !stopping_;
  if ((!stopping_ && !leaving_) || is_awaited || !workers_.empty() || parked_ || !warm_.empty()) return;
  if (std::exchange(finished_, true)) return;
  probe_.stop();
  fork_server_.reset();
  kill_leftovers();
  link_.finish();
  signals_.cancel();
  tick_timer_.cancel();
  output_timer_.cancel();
  leave_timer_.cancel();
  parked_timer_.cancel();
}

// The agent is the subreaper of all its workers' descendants, so that those that left their group are still below it.
void AgentService::kill_leftovers() {
  for (const pid_t pid : descendants(::getpid())) ::kill(pid, SIGKILL);
}

}  // namespace elastictrain::launcher
