#include "supervisor/supervisor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <chrono>
#include <csignal>
#include <utility>

#include "launcher/process/process_identity.h"
#include "supervisor/protocol/check.h"
#include "supervisor/supervisor_impl.h"

namespace elastictrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAgentsEnd{3'000};     // in addition to the grace
constexpr milliseconds kProcessesEnd{5'000};  // after TERM and KILL
constexpr milliseconds kAnswersEnd{2'000};    // for the last answers to clients

// Every agent is a connection; the default soft limit of 1,024 descriptors is too low for a thousand of them.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

AgentTableOptions agent_options(const SupervisorOptions& options) {
  AgentTableOptions agents;
  agents.bootstrap.run_name = options.settings.run_name;
  agents.bootstrap.addresses = options.advertise_addresses;
  if (agents.bootstrap.addresses.empty()) agents.bootstrap.addresses = options.listen_addresses;
  if (agents.bootstrap.addresses.empty()) agents.bootstrap.addresses = {"127.0.0.1"};
  agents.bootstrap.connect_timeout_ms = options.agent_connect_timeout_ms;
  agents.bootstrap.heartbeat_ms = options.heartbeat_ms;
  agents.bootstrap.worker_dead_ms = options.worker_dead_ms;
  agents.bootstrap.orphan_grace_ms = options.orphan_grace_ms;
  agents.bootstrap.grace_ms = static_cast<std::uint64_t>(options.settings.grace.count());
  agents.bootstrap.interface = options.interface;
  agents.bootstrap.notice_probe = options.notice_probe;
  agents.bootstrap.notice_probe_ms = options.notice_probe.empty() ? 0 : options.notice_probe_ms;
  agents.bootstrap.usr1_is_notice = options.usr1_drains;
  agents.bootstrap.keep_warm_ms = options.keep_warm_ms;
  agents.bootstrap.keep_warm_percent = options.keep_warm_percent;
  agents.bootstrap.preload = options.preload;
  agents.bootstrap.preload_timeout_ms = options.preload_timeout_ms;
  agents.listen.addresses = options.listen_addresses;
  agents.listen.port = options.listen_port;
  agents.tick = milliseconds(std::max<std::uint64_t>(options.heartbeat_ms, 10));
  agents.connect_timeout = milliseconds(options.agent_connect_timeout_ms);
  return agents;
}

// A list that is polled may still grow: too few hosts at first are no reason to give up before the start time-out.
ClusterSideSettings cluster_settings(const SupervisorOptions& options) {
  return {options.policy.observer, Millis(static_cast<std::int64_t>(options.orphan_grace_ms)), options.settings.grace};
}

Token random_token() {
  Token token{};
  const transport::Key bytes = transport::make_key();
  std::copy_n(bytes.begin(), token.size(), token.begin());
  return token;
}

// The last record of a supervisor that finds its state wrong. One supervises at a time in a process.
Journal* violation_journal = nullptr;

void record_violation(const char* text) {
  violation_journal->write(core::record::InvariantBroken{"check", text}, true);
}

}  // namespace

Instant clock_now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::steady_clock::now());
}

Supervisor::Supervisor(asio::io_context& io, SupervisorOptions options, launcher::Launcher& launcher,
                       launcher::HostSource& hosts)
    : impl_(std::make_unique<Impl>(io, std::move(options), launcher, hosts)) {}
Supervisor::~Supervisor() = default;

Status Supervisor::open() {
  return impl_->open();
}
int Supervisor::run() {
  return impl_->run();
}
void Supervisor::launch_ended(const launcher::LaunchEnded& ended) {
  impl_->launch_ended(ended);
}
void Supervisor::request_stop(core::StopCause cause) {
  impl_->request_stop(cause);
}
void Supervisor::stop_now() {
  impl_->stop_now();
}
void Supervisor::kill_now() {
  impl_->kill_now();
}
void Supervisor::forward_signal(int signal) {
  impl_->forward_signal(signal);
}
RunFigures Supervisor::figures() const {
  return impl_->figures();
}
bool Supervisor::can_continue() const {
  return impl_->can_continue();
}

bool Supervisor::has_checkpoint() const {
  return impl_->has_checkpoint();
}

bool Supervisor::suspended() const {
  return impl_->suspended();
}
std::uint16_t Supervisor::listen_port() const {
  return impl_->listen_port();
}

Supervisor::Impl::Impl(asio::io_context& io, SupervisorOptions options, launcher::Launcher& launcher,
                       launcher::HostSource& hosts)
    : io_(io),
      options_(std::move(options)),
      membership_(core_settings(hosts), random_token),
      agents_(io, options_.hosts_per_replica, agent_options(options_), launcher,
              {[this](AgentId agent, const protocol::AgentHello& hello) { agent_connected(agent, hello); },
               [this](AgentId agent, const std::string& reason, core::LossEvidence evidence) {
                 agent_lost(agent, reason, evidence);
               },
               [this](AgentId agent, protocol::AgentUp message) { on_agent_message(agent, std::move(message)); },
               [this](const std::string& address, const std::string& why) { reject_connection(address, why); }}),
      policy_(options_.policy),
      cluster_(io, options_.cluster, cluster_settings(options_),
               {[this](core::Event event) { feed(std::move(event)); }, [this] { return membership_.view(); },
                [this] { return up_s(); }, [this](const std::string& text) { tell(core::Tell::Level::kInfo, text); },
                [this](const core::RunView& run) { return policy_.expected_length(run); },
                [this] { return policy_.goodput(); }}),
      timers_(io, [this](std::uint64_t timer) { feed(core::TimerFired{timer}); }),
      rejections_([this](const std::string& address, const std::string& reason, std::uint64_t times) {
        connection_rejected(address, reason, times);
      }),
      hosts_(
          io, hosts, [this](const std::vector<launcher::Host>& offered) { hosts_offered(offered); },
          [this](const std::string& why) {
            journal(core::record::HostPollFailed{why});
            tell(core::Tell::Level::kWarning, "cannot poll the host source: " + why + "; the known hosts are kept");
          }),
      groups_(options_.hosts_per_replica),
      time_limit_(io),
      figures_timer_(io),
      rejections_timer_(io),
      board_timer_(io) {}

core::RunSettings Supervisor::Impl::core_settings(const launcher::HostSource& hosts) {
  core::RunSettings settings = options_.settings;
  settings.leased = options_.cluster != nullptr;
  settings.hosts_may_appear = settings.leased || hosts.interval_ms() > 0;
  settings.judge_end = [this](core::RunResult result) { return judge_end(std::move(result)); };
  return settings;
}

// A status must not promise a state that is nowhere, nor hide that the last one is.
core::RunResult Supervisor::Impl::judge_end(core::RunResult result) const {
  const auto& saved = checkpoints_.step();
  if (result.status == core::kStatusComeAgain && trained_ && !saved) {
    return {core::kStatusUnavailable, result.reason + "; its state is not saved: " + why_unsaved()};
  }
  const bool wanted = result.status == 0 && options_.settings.has_checkpoints && trained_;
  const bool is_saved = saved && checkpoints_.failures() == 0 && *saved >= final_step_.value_or(0);
  if (!wanted || is_saved) return result;
  const std::string step = final_step_ ? ", that of step " + std::to_string(*final_step_) + "," : "";
  const std::string newest =
      saved ? "the newest checkpoint is that of step " + std::to_string(*saved) : "there is no checkpoint";
  return {core::kStatusLastStateLost,
          result.reason + ", but the last state" + step + " is on no disk: " + why_unsaved() + "; " + newest};
}

std::string Supervisor::Impl::why_unsaved() const {
  if (!options_.settings.has_checkpoints) return "no checkpoint.directory is set";
  return checkpoints_.reason().empty() ? "no worker has written it" : checkpoints_.reason();
}

Supervisor::Impl::~Impl() {
  set_violation_observer(nullptr);
  cluster_.close();
  hosts_.stop();
}

Status Supervisor::Impl::open() {
  raise_descriptor_limit();
  started_ = clock_now();
  auto claimed = RunDirectory::claim(options_.run_directory);
  if (!claimed.ok()) return claimed.error();
  directory_.emplace(std::move(claimed).value());
  if (Status recorded = open_record(); !recorded.ok()) return recorded;
  const Status deciding =
      policy_.open(io_, {[this] { policy_answered(); },
                         [this](const std::string& line) { tell(core::Tell::Level::kInfo, "policy: " + line); }});
  if (!deciding.ok()) return deciding;
  if (Status opened = open_journal(); !opened.ok()) return opened;
  if (Status listening = listen_for_agents(); !listening.ok()) return listening;
  auto served = control::serve(
      io_, directory_->path(),
      [this](std::string line, control::ControlServer::Answer answer) { request(line, std::move(answer)); });
  if (!served.ok()) return served.error();
  control_ = std::move(served).value();
  master_port_ = find_free_port();
  save_record(std::nullopt);
  announce();
  go_on();
  return {};
}

Status Supervisor::Impl::open_journal() {
  if (options_.start != RunStart::kFresh) {
    if (Status known = look_back(); !known.ok()) return known;
  }
  auto journal = Journal::open(directory_->journal_path(),
                               [this](core::Tell::Level level, const std::string& text) { tell(level, text); });
  if (!journal.ok()) return journal.error();
  journal_ = std::move(journal).value();
  journal_->count_up_from(up_before_s_);
  violation_journal = journal_.get();
  set_violation_observer(record_violation);
  audits_ = std::make_unique<AuditFile>(audit_path_of(journal_->path()),
                                        [this](const std::string& text) { tell(core::Tell::Level::kWarning, text); });
  if (options_.start == RunStart::kFresh) audits_->clear();
  open_board();
  return {};
}

core::record::SupervisorStart Supervisor::Impl::start_record() const {
  core::record::SupervisorStart about;
  about.schema = core::record::kSchemaVersion;
  about.run = options_.settings.run_name;
  about.version = ELASTICTRAIN_VERSION;
  about.pid = ::getpid();
  about.port = agents_.table().port();
  about.command = options_.program.argv;
  about.min_workers = options_.settings.min_workers;
  about.start_workers = options_.settings.start_workers;
  about.max_workers = options_.settings.max_workers;
  if (std::string boot = launcher::boot_id(); !boot.empty()) about.boot = std::move(boot);
  return about;
}

void Supervisor::Impl::announce() {
  const std::optional<bool> leased = options_.cluster != nullptr ? std::optional(true) : std::nullopt;
  if (options_.start == RunStart::kFresh) return journal(core::record::RunOpened{start_record(), leased}, true);
  const std::optional<bool> anew = options_.start == RunStart::kStartAgain ? std::optional(true) : std::nullopt;
  journal(core::record::RunResumed{start_record(), anew, leased}, true);
}

int Supervisor::Impl::run() {
  arm_time_limit();
  const bool has_workers = options_.start == RunStart::kTakeOver && !membership_.view().workers.empty();
  if (options_.cluster == nullptr) hosts_.start(has_workers ? HostPoller::Begin::kTakeOver : HostPoller::Begin::kAnew);
  cluster_.begin();
  while (!ended_ && io_.run_one() != 0) {
  }
  close_down();
  return exit_status_;
}

void Supervisor::Impl::arm_time_limit() {
  if (options_.time_limit_ms == 0) return;
  // A supervisor that takes a run over continues its time; one that starts it again begins anew.
  const milliseconds used(static_cast<std::int64_t>((up_before_s_ - life_began_s_) * 1000));
  time_limit_.expires_after(std::max(milliseconds(options_.time_limit_ms) - used, milliseconds(0)));
  time_limit_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (!error && !life.expired()) request_stop(core::StopCause::kTimeLimit);
  });
}

void Supervisor::Impl::loop_until(const std::function<bool()>& done, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done() && std::chrono::steady_clock::now() < deadline) {
    if (io_.stopped()) io_.restart();
    io_.run_one_until(deadline);
  }
}

// Agents end their workers and themselves; the rest is ended by force, so that nothing is left behind.
void Supervisor::Impl::close_down() {
  hosts_.stop();
  policy_.close();
  timers_.clear();
  time_limit_.cancel();
  agents_.table().stop_all(options_.settings.grace);
  loop_until([this] { return hurry_ || !agents_.table().any_connected(); }, options_.settings.grace + kAgentsEnd);
  agents_.table().forget_all();
  loop_until([this] { return !agents_.table().any_process(); }, kProcessesEnd);
  loop_until([this] { return hurry_ || !policy_.any_process(); }, milliseconds(options_.policy.outside.timeout_ms));
  cluster_.close();
  if (agents_.table().any_process()) tell(core::Tell::Level::kWarning, "some launcher processes did not exit in time");
  for (auto& [id, answer] : requests_) answer(R"({"ok":false,"text":"the run has ended"})");
  requests_.clear();
  control_->close();
  loop_until([this] { return control_->unsent() == 0; }, kAnswersEnd);
  figures_timer_.cancel();
  rejections_timer_.cancel();
  board_timer_.cancel();
  board_file_->remove();
  rejections_.end_period();
  if (options_.on_figures) options_.on_figures(figures());
  journal(closing_record(), true);
  save_record(end_record());
  agents_.close();
  control_.reset();
  set_violation_observer(nullptr);
  journal_.reset();
  directory_.reset();
}

}  // namespace elastictrain
