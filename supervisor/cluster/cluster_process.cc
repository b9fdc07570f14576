#include "supervisor/cluster/cluster_process.h"

#include <pwd.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>

#include "launcher/process/process_identity.h"
#include "supervisor/cluster/cluster_requests.h"
#include "supervisor/policy/sharing_json.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cluster {
namespace {

constexpr double kSoonest_s = 0.005;
constexpr double kLatest_s = 3600;
constexpr const char* kJournalFile = "/journal.jsonl";
constexpr rlim_t kOtherDescriptors = 512;               // than those of connections
constexpr std::size_t kMaxJournalledBytes = 256 << 10;  // of a view or an answer of a policy from outside

double unix_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<cluster_core::HostLine> lines_of(const std::vector<launcher::Host>& hosts) {
  std::vector<cluster_core::HostLine> lines;
  for (const auto& host : hosts) lines.push_back({host.name, std::min(host.slots, kMaxSlotsOfHost), host.job});
  return lines;
}

// Connections that a process can have here: a system may allow fewer descriptors than the bound.
ServerBounds server_bounds() {
  ServerBounds bounds;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > bounds.connections + kOtherDescriptors) return bounds;
  bounds.connections = limit.rlim_cur / 2;
  bounds.kept_connections = bounds.connections / 8;
  bounds.connections_of_user = std::min(bounds.connections_of_user, bounds.connections / 4);
  return bounds;
}

bool leaves(const cluster_core::Action& action) {
  return !std::holds_alternative<cluster_core::Write>(action) && !std::holds_alternative<cluster_core::Tell>(action) &&
         !std::holds_alternative<cluster_core::Probe>(action);
}

}  // namespace

std::optional<std::string> first_broken_rule(const cluster_core::Cluster& cluster) {
  const auto broken = cluster.broken_rules();
  return broken.empty() ? std::nullopt : std::optional(broken.front());
}

ClusterProcess::ClusterProcess(asio::io_context& io, ClusterOptions options, MakeHosts make_hosts)
    : io_(io),
      options_(std::move(options)),
      make_hosts_(std::move(make_hosts)),
      wake_(io),
      poll_(io),
      start_(std::chrono::steady_clock::now()) {}

ClusterProcess::~ClusterProcess() {
  stop();
}

double ClusterProcess::now_s() const {
  return up_before_s_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

Status ClusterProcess::claim_directory() {
  auto claimed = transport::OwnedDirectory::claim({options_.directory, options_.everyone ? 0755u : 0700u,
                                                   kClusterSocketName, "choose another: directory in cluster.toml"});
  if (claimed.ok()) {
    directory_.emplace(std::move(*claimed));
    return {};
  }
  if (claimed.error().code != ErrorCode::kUnavailable) return claimed.error();
  return Error{ErrorCode::kUnavailable,
               "a cluster is already running in " + options_.directory +
                   "; end it (TERM; its runs go on) or give this one another name or directory"};
}

Status ClusterProcess::open() {
  if (Status claimed = claim_directory(); !claimed.ok()) return claimed;
  const std::string journal_path = directory_->path() + kJournalFile;
  cluster_ = std::make_unique<cluster_core::Cluster>(options_.settings);
  auto journal = ClusterJournal::open(
      journal_path, [this](const cluster_core::Record& record, double up_s) { cluster_->recall(record, up_s); },
      options_.say);
  if (!journal.ok()) return journal.error();
  if (const auto broken = cluster_->book().broken_rules(); !broken.empty()) {
    return Error{ErrorCode::kInvalid, "the journal " + journal_path + " contradicts itself: " + broken.front() +
                                          ". Move it away: the cluster begins without jobs then, and runs that still "
                                          "train join again"};
  }
  journal_ = std::move(*journal);
  journal_most_bytes_ = options_.journal_max_bytes;
  up_before_s_ = journal_->last_up_s();
  start_ = std::chrono::steady_clock::now();
  if (Status opened = open_policy(); !opened.ok()) return opened;
  starter_ = std::make_unique<RunStarter>(io_, directory_->path(), [this](const auto& ended) { give(ended); });
  ClusterServer::Handlers handlers;
  handlers.line = [this](auto connection, const Peer& peer, const std::string& line) {
    take_line(connection, peer, line);
  };
  handlers.closed = [this](auto connection) {
    if (runs_.erase(connection) > 0) give(cluster_core::Disconnected{connection});
  };
  launcher::raise_descriptor_limit();
  auto server = ClusterServer::listen(io_, directory_->path(), options_.everyone, std::move(handlers), server_bounds());
  if (!server.ok()) return server.error();
  server_ = std::move(*server);
  source_ = make_hosts_(growth_inputs());
  poll_hosts();
  return {};
}

Status ClusterProcess::open_policy() {
  if (!options_.settings.outside) return {};
  policy::OutsideSharing::Handlers handlers;
  handlers.answered = [this](auto answer) { take_answer(std::move(answer)); };
  handlers.on_line = [this](const std::string& line) { options_.say("policy: " + line); };
  auto opened = policy::OutsideSharing::open(io_, options_.policy, options_.settings.seed, std::move(handlers));
  if (!opened.ok()) return opened.error();
  policy_ = std::move(*opened);
  return {};
}

// Nothing is asked for before the runs are back.
GrowthInputs ClusterProcess::growth_inputs() {
  GrowthInputs inputs;
  for (const auto& host : cluster_->helpers()) inputs.helpers.push_back({host.name, host.slots, host.job});
  inputs.demand = [this]() -> std::optional<cluster_core::SlotDemand> {
    if (!begun_ || cluster_->resuming()) return std::nullopt;
    return cluster_->demand();
  };
  inputs.changed = [this](const cluster_core::HelpersChanged& change) { give(change); };
  return inputs;
}

void ClusterProcess::stop() {
  *alive_ = false;
  wake_.cancel();
  poll_.cancel();
  policy_.reset();
  source_.reset();
  server_.reset();
  starter_.reset();
  journal_.reset();
  directory_.reset();
}

// Nothing is decided before the hosts are known.
void ClusterProcess::begin(const std::vector<launcher::Host>& hosts) {
  begun_ = true;
  carry_out(cluster_->begin(now_s()));
  if (!*alive_) return;
  give(cluster_core::HostsChanged{lines_of(hosts)});
  if (*alive_ && options_.begun) options_.begun(*cluster_);
}

void ClusterProcess::poll_hosts() {
  source_->poll([this, alive = alive_](Result<std::vector<launcher::Host>> hosts) {
    if (!*alive) return;
    if (!hosts.ok()) options_.say(hosts.error().message);
    if (hosts.ok() && begun_) give(cluster_core::HostsChanged{lines_of(*hosts)});
    if (hosts.ok() && !begun_) begin(*hosts);
    const std::uint64_t interval_ms = source_->interval_ms() == 0 && !begun_ ? 1000 : source_->interval_ms();
    if (interval_ms == 0) return;
    poll_.expires_after(std::chrono::milliseconds(interval_ms));
    poll_.async_wait([this, alive](asio::error_code error) {
      if (!error && *alive) poll_hosts();
    });
  });
}

void ClusterProcess::give(const cluster_core::Event& event) {
  if (!*alive_ || !begun_) return;
  carry_out(cluster_->step(event, now_s()));
}

// What a wrong state has decided must neither leave the process nor be read by the next one.
bool ClusterProcess::is_broken() {
  const auto rule = options_.find_broken(*cluster_);
  if (!rule) return false;
  *alive_ = false;
  options_.say("internal error: " + *rule);
  if (speaker_ != 0 && !runs_.contains(speaker_)) server_->send_last(speaker_, broken_answer(*rule));
  if (options_.broken) options_.broken(*rule);
  return true;
}

// All records of a step are on disk before the first of its actions that leaves the process.
void ClusterProcess::carry_out(const cluster_core::Actions& actions) {
  const auto is_record = [](const cluster_core::Action& action) {
    return std::holds_alternative<cluster_core::Write>(action);
  };
  const bool recorded = std::any_of(actions.begin(), actions.end(), is_record);
  if (recorded && is_broken()) return;
  for (const auto& action : actions) {
    const auto* const write = std::get_if<cluster_core::Write>(&action);
    if (write == nullptr) continue;
    journal_->write(write->record, unix_now_s(), now_s());
  }
  if (recorded && speaker_ != 0) server_->note_record(speaker_);
  if (std::any_of(actions.begin(), actions.end(), leaves)) journal_->sync();
  for (const auto& action : actions) {
    if (*alive_) std::visit([this](const auto& one) { act(one); }, action);
  }
  if (*alive_ && recorded) shorten_journal();
  if (*alive_) arm();
}

void ClusterProcess::shorten_journal() {
  if (journal_->failing() || !journal_->is_longer_than(journal_most_bytes_)) return;
  const Status done = journal_->shorten([this](const cluster_core::Record& record) { return cluster_->needs(record); });
  if (done.ok()) {
    journal_most_bytes_ = options_.journal_max_bytes;
    return;
  }
  options_.say(done.error().message);
  journal_most_bytes_ *= 2;  // not at every record
}

void ClusterProcess::arm() {
  const double now = now_s();
  const double wait_s = std::clamp(cluster_->wake_s(now) - now, kSoonest_s, kLatest_s);
  wake_.expires_after(std::chrono::microseconds(static_cast<std::int64_t>(wait_s * 1e6)));
  wake_.async_wait([this, alive = alive_](asio::error_code error) {
    if (!error && *alive) give(cluster_core::Tick{});
  });
}

// --- Actions

void ClusterProcess::act(const cluster_core::Answer& answer) {
  server_->send(answer.request, answer_of(answer));
}

void ClusterProcess::act(const cluster_core::Welcome& welcome) {
  server_->send(welcome.connection, to_line(FromCluster(Joined{cluster_core::id_text(welcome.job)})));
}

void ClusterProcess::act(const cluster_core::Refuse& one) {
  refuse(one.connection, one.text);
}

void ClusterProcess::act(const cluster_core::SendLease& lease) {
  server_->send(lease.connection,
                to_line(FromCluster(Lease{lease.version, named(lease.slots), lease.hold, lease.reason,
                                          lease.beside == 0 ? std::string() : cluster_core::id_text(lease.beside),
                                          lease.moves})));
}

void ClusterProcess::act(const cluster_core::SendPlace& place) {
  server_->send(place.connection, to_line(FromCluster(QueuePlace{place.place, place.of, place.why})));
}

void ClusterProcess::act(const cluster_core::SendEnd& end) {
  server_->send(end.connection, to_line(FromCluster(End{end.why})));
}

void ClusterProcess::act(const cluster_core::StartRun& start) {
  ET_CHECK(cluster_->jobs().contains(start.job), "a run that is started is that of a job");
  starter_->start(cluster_->jobs().at(start.job), start.resume);
}

void ClusterProcess::act(const cluster_core::SignalRun& signal) {
  const auto job = cluster_->jobs().find(signal.job);
  if (job != cluster_->jobs().end()) starter_->signal(job->second, signal.kill ? SIGKILL : SIGTERM);
}

// Posted: the answer is an event of its own.
void ClusterProcess::act(const cluster_core::Probe& probe) {
  asio::post(io_, [this, alive = alive_, id = probe.job] {
    if (!*alive) return;
    const auto job = cluster_->jobs().find(id);
    if (job != cluster_->jobs().end()) give(options_.probe(job->second));
  });
}

void ClusterProcess::act(const cluster_core::Tell& tell) {
  options_.say(tell.text);
}

void ClusterProcess::act(const cluster_core::AskPolicy& ask) {
  question_ = ask.question;
  view_ = policy::to_json(ask.asked->view);
  policy_->ask({ask.asked, &ask.asked->view}, view_);
}

void ClusterProcess::take_answer(policy::OutsideSharing::Answer answer) {
  const auto fitting = [](std::string text) { return text.size() > kMaxJournalledBytes ? std::string() : text; };
  cluster_core::PolicyAnswered event;
  event.question = std::exchange(question_, 0);
  event.decision = std::move(answer.decision);
  event.is_last = answer.is_last;
  event.view = fitting(std::exchange(view_, {}));
  event.answer = fitting(std::move(answer.text));
  give(event);
}

// --- Lines

void ClusterProcess::refuse(std::uint64_t connection, const std::string& text) {
  runs_.erase(connection);
  server_->send(connection, to_line(FromCluster(Refused{text})));
  server_->close(connection);
}

void ClusterProcess::take_line(std::uint64_t connection, const Peer& peer, const std::string& line) {
  if (!*alive_) return;
  if (!begun_) {
    server_->send(connection,
                  refusal_answer(cluster_core::Outcome::kUnavailable, "the cluster does not know its hosts yet"));
    return server_->close(connection);
  }
  const nlohmann::json said = parse_json(line, kMaxMessageDepth);
  const bool is_message = runs_.contains(connection) || is_join(said);
  speaker_ = connection;
  is_message ? take_message(connection, peer, said) : take_request(connection, peer, said);
  speaker_ = 0;
}

void ClusterProcess::take_request(std::uint64_t connection, const Peer& peer, const nlohmann::json& request) {
  auto parsed = parse_client_request(request);
  if (!parsed.ok())
    return server_->send(connection, refusal_answer(cluster_core::Outcome::kInvalid, parsed.error().message));
  const cluster_core::Owner owner = owner_of(peer);
  const cluster_core::Limits limits = options_.settings.limits(owner);
  if (std::holds_alternative<QueueRequest>(*parsed)) {
    return server_->send(connection, queue_answer(*cluster_, {options_.name, now_s(), journal_->failing()}));
  }
  if (auto* command = std::get_if<cluster_core::Command>(&*parsed)) {
    command->request = connection;
    command->owner = owner;
    command->limits = limits;
    return give(*command);
  }
  auto& submit = std::get<cluster_core::Submit>(*parsed);
  cluster_core::Outcome outcome = cluster_core::Outcome::kUnavailable;
  if (!journal_->try_again()) {
    const std::string text = "the cluster cannot write its journal; it takes no jobs until there is space";
    return server_->send(connection, refusal_answer(outcome, text));
  }
  if (peer.uid != ::geteuid()) {  // it never runs anything for somebody else
    const std::string problem = cluster_->refusal(owner, limits, submit.spec, outcome);
    return server_->send(connection, problem.empty() ? start_yourself_answer() : refusal_answer(outcome, problem));
  }
  if (submit.spec.arguments.empty()) {
    return server_->send(connection,
                         refusal_answer(cluster_core::Outcome::kInvalid, "arguments of the run are missing"));
  }
  submit.request = connection;
  submit.owner = owner;
  submit.limits = limits;
  submit.unix_s = unix_now_s();
  give(submit);
}

void ClusterProcess::take_message(std::uint64_t connection, const Peer& peer, const nlohmann::json& said) {
  auto message = run_message(said);
  if (!message.ok()) {
    const bool was_run = runs_.contains(connection);
    refuse(connection, message.error().message);
    if (was_run) give(cluster_core::Disconnected{connection});
    return;
  }
  const bool joined = runs_.contains(connection);
  if (const auto* join = std::get_if<Join>(&*message); join != nullptr && !joined) {
    take_join(connection, peer, *join);
  } else if (const auto* report = std::get_if<Report>(&*message); report != nullptr && joined) {
    take_report(connection, *report);
  } else if (const auto* ended = std::get_if<Ended>(&*message); ended != nullptr && joined) {
    give(cluster_core::RunEnded{connection, ended->status});
  } else {
    refuse(connection, joined ? "it has joined already" : "a run's first line must be its join");
    if (joined) give(cluster_core::Disconnected{connection});
  }
}

void ClusterProcess::take_join(std::uint64_t connection, const Peer& peer, const Join& join) {
  std::string problem;
  const auto holds = slots_from(join.holds, problem);
  if (join.protocol != kLeaseProtocol) problem = "this cluster speaks version 1 of the protocol of runs";
  if (!problem.empty() || !holds) return refuse(connection, problem);
  cluster_core::Join event;
  event.connection = connection;
  event.owner = owner_of(peer);
  event.limits = options_.settings.limits(event.owner);
  event.job = join.job.value_or("");
  event.directory = join.directory;
  event.pid = peer.pid;
  if (peer.uid == ::geteuid()) event.process_mark = launcher::process_mark(static_cast<pid_t>(peer.pid));
  event.spec.name = join.run;
  event.spec.min = join.min;
  event.spec.max = join.max;
  event.spec.start = join.start;
  event.spec.samples_total = join.samples_total;
  event.spec.priority = join.priority;
  if (join.deadline_s) event.spec.deadline_s = static_cast<double>(*join.deadline_s);
  event.spec.suspends = join.suspends_to_file;
  event.spec.stands = join.suspends_in_memory;
  event.moves = join.moves;
  event.spec.one_host = join.demand.one_host;
  event.spec.most_hosts = join.demand.most_hosts;
  event.spec.hosts = join.demand.hosts;
  event.lease = join.lease;
  event.holds = *holds;
  event.unix_s = unix_now_s();
  const bool is_new = runs_.insert(connection).second;
  ET_CHECK(is_new, "a connection is that of one run");
  server_->keep(connection);
  give(event);
}

void ClusterProcess::take_report(std::uint64_t connection, const Report& report) {
  std::string problem;
  const auto holds = slots_from(report.holds, problem);
  if (!holds) {
    refuse(connection, problem);
    return give(cluster_core::Disconnected{connection});
  }
  cluster_core::Report event;
  event.connection = connection;
  event.lease = report.lease;
  event.holds = *holds;
  event.phase = name_of(report.phase);
  event.stands = report.phase == JobPhase::kSuspended;
  event.workers = report.workers;
  event.step = report.step;
  event.samples = report.samples;
  event.samples_total = report.samples_total;
  event.expected_samples = report.expected_samples;
  event.expected_error = report.expected_error;
  for (const GoodputRate& at : report.goodput) event.goodput.push_back({at.workers, at.rate});
  for (const Rate& rate : report.rates) {
    event.rates.push_back({rate.workers, rate.samples_per_s, rate.views, false, rate.hosts});
  }
  for (const Rate& rate : report.packed_rates) {
    event.rates.push_back({rate.workers, rate.samples_per_s, rate.views, true});
  }
  event.memory_bytes = report.memory_bytes;
  event.wants = report.wants;
  for (const std::string& name : report.lost_hosts) {
    const auto& hosts = cluster_->hosts();
    const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.name == name; });
    if (found != hosts.end()) event.lost_hosts.push_back(static_cast<std::uint32_t>(found - hosts.begin()));
  }
  give(event);
}

std::optional<cluster_core::Slots> ClusterProcess::slots_from(const std::vector<HostSlots>& holds,
                                                              std::string& problem) const {
  cluster_core::Slots slots;
  const auto& hosts = cluster_->hosts();
  for (const HostSlots& one : holds) {
    const auto found =
        std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.name == one.host; });
    if (found == hosts.end()) {
      problem = "it holds slots of " + one.host + ", which is not a host of this cluster";
      return std::nullopt;
    }
    for (const std::uint32_t number : one.slots)
      slots.push_back({static_cast<std::uint32_t>(found - hosts.begin()), number});
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

std::vector<HostSlots> ClusterProcess::named(const cluster_core::Slots& slots) const {
  std::vector<HostSlots> list;
  for (const auto slot : slots) {
    ET_CHECK(slot.host < cluster_->hosts().size(), "a slot is one of a known host");
    const auto& host = cluster_->hosts()[slot.host];
    if (list.empty() || list.back().host != host.name) list.push_back({host.name, {}, host.slots, host.job});
    list.back().slots.push_back(slot.number);
  }
  return list;
}

cluster_core::Owner ClusterProcess::owner_of(const Peer& peer) const {
  const passwd* const entry = ::getpwuid(peer.uid);
  const std::string name = entry == nullptr ? std::to_string(peer.uid) : entry->pw_name;
  return {peer.uid, name, peer.uid == ::geteuid() || peer.uid == 0};
}

}  // namespace elastictrain::cluster
