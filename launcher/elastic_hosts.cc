#include "launcher/elastic_hosts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "launcher/host_sources.h"
#include "launcher/hostfile.h"

namespace elastictrain::launcher {
namespace {

constexpr std::uint64_t kOwnInterval_ms = 1'000;
constexpr std::chrono::seconds kGoodbye{30};

Expansion::Instant now() {
  return std::chrono::duration_cast<Expansion::Instant>(std::chrono::steady_clock::now().time_since_epoch());
}

Status success_of(const CommandEnd& end) {
  const std::string summary = last_line(end.error_text);
  const std::string reason = summary.empty() ? "" : ": " + summary;
  if (end.output_too_large) return Error{ErrorCode::kInvalid, "its output is too large for a list of hosts"};
  if (end.timed_out) return Error{ErrorCode::kTimeout, "it took too long" + reason};
  if (end.status.signal != 0 || end.status.exit_code != 0) {
    return Error{ErrorCode::kUnavailable, "it failed with " + describe(end.status) + reason};
  }
  return {};
}

Result<std::vector<Host>> hosts_of(const CommandEnd& end) {
  if (const Status good = success_of(end); !good.ok()) return good.error();
  return parse_hostfile(end.output, "its output");
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string names_of(const std::vector<Host>& hosts) {
  std::string names;
  for (const Host& host : hosts) names += (names.empty() ? "" : " ") + host.name;
  return names;
}

std::string jobs_of(const std::vector<Host>& hosts) {
  std::string jobs;
  for (const Host& host : hosts) {
    if (!host.job.empty()) jobs += (jobs.empty() ? "" : " ") + host.job;
  }
  return jobs;
}

void add_missing(const std::vector<Host>& added, std::vector<Host>& hosts) {
  for (const Host& host : added) {
    const bool known = std::any_of(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == host.name; });
    if (!known) hosts.push_back(host);
  }
}

}  // namespace

ElasticHosts::ElasticHosts(asio::io_context& io, std::unique_ptr<HostSource> beneath, ElasticHostsOptions options,
                           Demand demand, Say say)
    : io_(io),
      beneath_(std::move(beneath)),
      options_(std::move(options)),
      demand_(std::move(demand)),
      say_(std::move(say)),
      expansion_(options_.settings, options_.added),
      known_(options_.added) {}

ElasticHosts::~ElasticHosts() {
  if (asking_) asking_->terminate();
  if (looking_) looking_->terminate();
}

std::uint64_t ElasticHosts::interval_ms() const {
  return beneath_->interval_ms() > 0 ? beneath_->interval_ms() : kOwnInterval_ms;
}

void ElasticHosts::poll(std::function<void(Result<std::vector<Host>>)> done) {
  look();
  beneath_->poll([this, done = std::move(done), life = std::weak_ptr<char>(life_)](Result<std::vector<Host>> hosts) {
    if (life.expired()) return;
    if (hosts.ok()) {
      std::erase_if(*hosts, [this](const Host& host) { return expansion_.is_left(host.name); });
      add_missing(expansion_.added(), *hosts);
    }
    done(std::move(hosts));
  });
}

std::string ElasticHosts::job_of(const std::string& host) const {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Host& h) { return h.name == host; });
  return found == known_.end() ? std::string() : found->job;
}

void ElasticHosts::look() {
  const auto demand = over_ ? std::nullopt : demand_();
  if (!demand) return;
  look_who_lives();
  const Expansion::Step step = expansion_.step(*demand, now());
  if (!step.leaves.empty()) tell(HostsChange::What::kLeft, step.leaves);
  if (!step.released.empty()) {
    tell(HostsChange::What::kReturned, step.released);
    if (!options_.shrink.empty()) give_back(step.released);
  }
  if (step.withdraw) withdraw();
  if (step.missing_slots > 0) ask(step.missing_slots, demand->needed_slots);
}

void ElasticHosts::tell(HostsChange::What what, std::uint32_t slots, std::string text) {
  options_.on_change({what, slots, std::move(text), expansion_.known()});
}

void ElasticHosts::tell(HostsChange::What what, const std::vector<Host>& hosts) {
  std::uint32_t slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  tell(what, slots, names_of(hosts));
}

// A host whose job has ended, or is about to, may not say so itself.
void ElasticHosts::look_who_lives() {
  std::vector<Host> hosts = expansion_.added();
  std::erase_if(hosts, [](const Host& host) { return host.job.empty(); });
  if (options_.alive.empty() || hosts.empty() || looking_ || now() < next_look_) return;
  next_look_ = now() + options_.alive_interval;
  looking_ = run(options_.alive, {"ELASTICTRAIN_HOST_JOBS=" + jobs_of(hosts)},
                 [this, hosts, life = std::weak_ptr<char>(life_)](const CommandEnd& end) {
                   if (!life.expired()) lives(hosts, end);
                 });
}

// Without an answer all are taken to be there.
void ElasticHosts::lives(const std::vector<Host>& looked_at, const CommandEnd& end) {
  looking_.reset();
  const Status good = success_of(end);
  if (!good.ok() && !look_failed_)
    say_("which hosts live is not known: " + options_.alive + ": " + good.error().message);
  look_failed_ = !good.ok();
  if (!good.ok()) return;
  const std::set<std::string> alive = words_of(end.output);
  std::vector<std::string> gone;
  for (const Host& host : looked_at) {
    if (!alive.contains(host.job)) gone.push_back(host.name);
  }
  const std::vector<Host> lost = expansion_.lost(gone, now());
  if (lost.empty()) return;
  say_(names_of(lost) + " is lost, or will be: its job " + jobs_of(lost) + " does not run any more");
  tell(HostsChange::What::kLost, lost);
}

std::shared_ptr<Command> ElasticHosts::run(const std::string& text, std::vector<std::string> environment,
                                           Command::EndHandler on_end) {
  CommandSpec spec;
  // The shell would end at TERM before the program that it has started, which is killed then.
  spec.argv = shell_command("trap 'exit 143' TERM\n" + text);
  spec.environment = std::move(environment);
  spec.environment.push_back("ELASTICTRAIN_JOB_ID=" + options_.job);
  spec.deadline = options_.timeout;
  spec.kill_after = kGoodbye;  // it may have jobs to cancel
  auto command = Command::start(io_, std::move(spec), nullptr, std::move(on_end));
  if (command.ok()) return *command;
  say_(text + " cannot be run: " + command.error().message);
  return nullptr;
}

void ElasticHosts::ask(std::uint32_t missing, std::uint32_t wanted) {
  say_("requesting " + std::to_string(missing) + " more slots: " + options_.expand);
  tell(HostsChange::What::kAsked, missing, "");
  withdrawn_ = false;
  asking_ = run(
      options_.expand,
      {"ELASTICTRAIN_WANTED_SLOTS=" + std::to_string(wanted), "ELASTICTRAIN_MISSING_SLOTS=" + std::to_string(missing),
       "ELASTICTRAIN_HOSTS=" + names_of(expansion_.known())},
      [this, life = std::weak_ptr<char>(life_)](const CommandEnd& end) {
        if (!life.expired()) asked(end);
      });
  if (!asking_) failed("it cannot be started");
}

void ElasticHosts::failed(const std::string& why) {
  expansion_.failure(now());
  tell(HostsChange::What::kFailed, 0, why);
}

void ElasticHosts::withdraw() {
  if (!asking_ || withdrawn_) return;
  withdrawn_ = true;
  say_("no more slots are missing: the request is withdrawn");
  asking_->terminate();
}

// One that was withdrawn may have brought its hosts just before.
void ElasticHosts::asked(const CommandEnd& end) {
  asking_.reset();
  const auto hosts = hosts_of(end);
  if (!hosts && withdrawn_) {
    expansion_.withdrawn();
    return tell(HostsChange::What::kWithdrawn, 0, "");
  }
  if (!hosts) {
    if (!over_) say_("no more hosts from " + options_.expand + ": " + hosts.error().message);
    return failed(hosts.error().message);
  }
  std::vector<Host> newest = *hosts;
  add_missing(known_, newest);
  known_ = std::move(newest);
  expansion_.answer(*hosts, now());
  tell(HostsChange::What::kCame, *hosts);
}

// Nobody works there any more, and the list of hosts without them has been offered.
void ElasticHosts::give_back(const std::vector<Host>& hosts) {
  say_("giving " + names_of(hosts) + " back: " + options_.shrink);
  const auto on_end = [say = say_, text = options_.shrink](const CommandEnd& end) {
    const bool good = end.status.signal == 0 && end.status.exit_code == 0 && !end.timed_out;
    if (!good) say(text + " ended with " + describe(end.status) + ": " + last_line(end.error_text));
  };
  const auto command = run(
      options_.shrink, {"ELASTICTRAIN_HOSTS=" + names_of(hosts), "ELASTICTRAIN_HOST_JOBS=" + jobs_of(hosts)}, on_end);
  if (command) giving_back_.push_back(command);
}

void ElasticHosts::give_all_back() {
  over_ = true;
  io_.restart();
  if (asking_) asking_->terminate();
  run_while([this] { return asking_ != nullptr; });
  if (!options_.shrink.empty() && !expansion_.known().empty()) give_back(expansion_.known());
  run_while([this] {
    return std::any_of(giving_back_.begin(), giving_back_.end(),
                       [](const auto& command) { return !command.expired(); });
  });
}

void ElasticHosts::run_while(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kGoodbye;
  while (condition() && std::chrono::steady_clock::now() < deadline) io_.run_one_until(deadline);
}

}  // namespace elastictrain::launcher
