#include "launcher/elastic_hosts.h"

#include <algorithm>

#include "launcher/host_sources.h"
#include "launcher/hostfile.h"

namespace elastictrain::launcher {
namespace {

constexpr std::uint64_t kOwnInterval_ms = 1'000;
constexpr std::chrono::seconds kGoodbye{30};

Expansion::Instant now() {
  return std::chrono::duration_cast<Expansion::Instant>(std::chrono::steady_clock::now().time_since_epoch());
}

Result<std::vector<Host>> hosts_of(const CommandEnd& end) {
  const std::string summary = last_line(end.error_text);
  const std::string reason = summary.empty() ? "" : ": " + summary;
  if (end.output_too_large) return Error{ErrorCode::kInvalid, "its output is too large for a list of hosts"};
  if (end.timed_out) return Error{ErrorCode::kTimeout, "it took too long" + reason};
  if (end.status.signal != 0 || end.status.exit_code != 0) {
    return Error{ErrorCode::kUnavailable, "it failed with " + describe(end.status) + reason};
  }
  return parse_hostfile(end.output, "its output");
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
}

std::uint64_t ElasticHosts::interval_ms() const {
  return beneath_->interval_ms() > 0 ? beneath_->interval_ms() : kOwnInterval_ms;
}

void ElasticHosts::poll(std::function<void(Result<std::vector<Host>>)> done) {
  look();
  beneath_->poll([this, done = std::move(done), life = std::weak_ptr<char>(life_)](Result<std::vector<Host>> hosts) {
    if (life.expired()) return;
    if (hosts.ok()) add_missing(expansion_.added(), *hosts);
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
  const Expansion::Step step = expansion_.step(*demand, now());
  if (!step.released.empty()) {
    give_back(step.released);
    options_.on_change(expansion_.added());
  }
  if (step.missing_slots > 0) ask(step.missing_slots, demand->needed_slots);
}

std::shared_ptr<Command> ElasticHosts::run(const std::string& text, std::vector<std::string> environment,
                                           Command::EndHandler on_end) {
  CommandSpec spec;
  spec.argv = shell_command(text);
  spec.environment = std::move(environment);
  spec.environment.push_back("ELASTICTRAIN_JOB_ID=" + options_.job);
  spec.deadline = options_.timeout;
  auto command = Command::start(io_, std::move(spec), nullptr, std::move(on_end));
  if (command.ok()) return *command;
  say_(text + " cannot be run: " + command.error().message);
  return nullptr;
}

void ElasticHosts::ask(std::uint32_t missing, std::uint32_t wanted) {
  say_("requesting " + std::to_string(missing) + " more slots: " + options_.expand);
  asking_ = run(
      options_.expand,
      {"ELASTICTRAIN_WANTED_SLOTS=" + std::to_string(wanted), "ELASTICTRAIN_MISSING_SLOTS=" + std::to_string(missing)},
      [this, life = std::weak_ptr<char>(life_)](const CommandEnd& end) {
        if (!life.expired()) asked(end);
      });
  if (!asking_) expansion_.failure(now());
}

void ElasticHosts::asked(const CommandEnd& end) {
  asking_.reset();
  const auto hosts = hosts_of(end);
  if (!hosts) {
    if (!over_) say_("no more hosts from " + options_.expand + ": " + hosts.error().message);
    return expansion_.failure(now());
  }
  add_missing(*hosts, known_);
  expansion_.answer(*hosts, now());
  options_.on_change(expansion_.added());
}

// The workers are gone; the agent leaves when the list without its host is offered, which happens after this.
void ElasticHosts::give_back(const std::vector<Host>& hosts) {
  std::string names;
  std::string jobs;
  for (const Host& host : hosts) {
    names += (names.empty() ? "" : " ") + host.name;
    if (!host.job.empty()) jobs += (jobs.empty() ? "" : " ") + host.job;
  }
  say_("giving " + names + " back: " + options_.shrink);
  const auto on_end = [say = say_, text = options_.shrink](const CommandEnd& end) {
    const bool good = end.status.signal == 0 && end.status.exit_code == 0 && !end.timed_out;
    if (!good) say(text + " ended with " + describe(end.status) + ": " + last_line(end.error_text));
  };
  const auto command = run(options_.shrink, {"ELASTICTRAIN_HOSTS=" + names, "ELASTICTRAIN_HOST_JOBS=" + jobs}, on_end);
  if (command) giving_back_.push_back(command);
}

// A request in progress may still bring hosts, which are returned as well.
void ElasticHosts::give_all_back() {
  over_ = true;
  io_.restart();
  if (asking_) asking_->terminate();
  run_while([this] { return asking_ != nullptr; });
  if (!options_.shrink.empty() && !expansion_.added().empty()) give_back(expansion_.added());
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
