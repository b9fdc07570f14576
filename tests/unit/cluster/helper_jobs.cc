#include "helper_jobs.h"

#include <algorithm>
#include <cmath>

#include "cli/commands/cluster/cluster.h"

namespace elastictrain::cluster_core::test {
namespace {

launcher::ExpansionSettings settings() {
  launcher::ExpansionSettings settings;
  settings.can_expand = settings.can_shrink = true;
  settings.retry_after = std::chrono::seconds(1);
  settings.longest_retry = std::chrono::seconds(20);
  settings.expand_after = std::chrono::milliseconds(500);
  settings.shrink_after = std::chrono::seconds(4);
  return settings;
}

}  // namespace

std::chrono::milliseconds HelperJobs::now() const {
  return std::chrono::milliseconds(std::llround(the_.now_s() * 1000));
}

std::uint32_t HelperJobs::whole(std::uint32_t low, std::uint32_t high) {
  return std::min(high, low + static_cast<std::uint32_t>(the_.uniform(0, high - low + 1)));
}

// --- The edge of a cluster process

void HelperJobs::begin(const std::vector<HostLine>& known) {
  std::vector<launcher::Host> added;
  for (const HostLine& host : known) added.push_back({host.name, host.slots, host.job});
  expansion_.emplace(settings(), std::move(added));
  ++process_;
  withdrawn_ = looks_ = false;
}

void HelperJobs::kill() {
  expansion_.reset();
  ++request_;
}

std::vector<HostLine> HelperJobs::hosts() const {
  std::vector<HostLine> hosts;
  if (!expansion_) return hosts;
  for (const auto& host : expansion_->added()) hosts.push_back({host.name, host.slots, host.job});
  return hosts;
}

void HelperJobs::tell(What what, std::uint32_t slots, const std::string& text) {
  HelpersChanged change{what, slots, text, {}};
  for (const auto& host : expansion_->known()) change.helpers.push_back({host.name, host.slots, host.job});
  the_.changed(change);
}

void HelperJobs::tell(What what, const std::vector<launcher::Host>& hosts) {
  std::uint32_t slots = 0;
  for (const auto& host : hosts) slots += host.slots;
  tell(what, slots, hosts.front().name);
}

// Each word that it says may be the last one of its process.
void HelperJobs::look() {
  const auto demand = expansion_ ? the_.demand() : std::nullopt;
  if (!demand) return;
  look_who_lives();
  const auto step = expansion_->step(cli::demand_of(*demand), now());
  const std::uint64_t process = process_;
  const auto lives = [&] { return expansion_ && process_ == process; };
  if (!step.leaves.empty()) tell(What::kLeft, step.leaves);
  if (!step.released.empty() && lives()) tell(What::kReturned, step.released);
  // Its command runs on where the process is killed now.
  if (!step.released.empty()) give_back(step.released);
  if (step.withdraw && lives()) withdrawn_ = true;
  if (step.missing_slots > 0 && lives()) ask(step.missing_slots);
}

void HelperJobs::look_who_lives() {
  if (looks_ || expansion_->added().empty()) return;
  looks_ = true;
  std::vector<std::string> gone;
  for (const auto& host : expansion_->added()) {
    if (!host_of_job_.contains(host.job)) gone.push_back(host.name);
  }
  the_.later(the_.uniform(0.1, 3), [this, gone, process = process_] {
    if (!expansion_ || process_ != process) return;
    looks_ = false;
    const auto lost = expansion_->lost(gone, now());
    if (!lost.empty()) tell(What::kLost, lost);
  });
}

void HelperJobs::ask(std::uint32_t missing) {
  if (the_.slots() + missing > the_.most_slots()) {
    the_.fail(std::to_string(missing) + " slots were asked for beside " + std::to_string(the_.slots()));
  }
  withdrawn_ = false;
  const std::uint64_t request = ++request_;
  std::set<std::string> known;
  for (const auto& host : expansion_->known()) known.insert(host.name);
  tell(What::kAsked, missing, "");
  the_.later(the_.uniform(0.2, 15), [this, request, missing, known] { answer(request, missing, known); });
}

void HelperJobs::answer(std::uint64_t request, std::uint32_t missing, const std::set<std::string>& not_these) {
  if (!expansion_ || request != request_) return;
  const bool brings = withdrawn_ ? chance(0.3) : chance(0.75);
  if (!brings && withdrawn_) {
    expansion_->withdrawn();
    return tell(What::kWithdrawn, 0, "");
  }
  if (!brings) {
    expansion_->failure(now());
    return tell(What::kFailed, 0, "refused");
  }
  const auto hosts = bring(missing, not_these);
  expansion_->answer(hosts, now());
  came += hosts.size();
  tell(What::kCame, hosts);
}

void HelperJobs::give_back(const std::vector<launcher::Host>& hosts) {
  for (const auto& host : hosts) {
    const auto job = host_of_job_.find(host.job);
    if (job == host_of_job_.end() || job->second != host.name) continue;  // it has ended
    const std::string user = the_.user_of(host.name);
    if (!user.empty()) the_.fail(host.name + " was returned while " + user + " has processes there");
    ++returned;
    the_.later(the_.uniform(0, 2), [this, job = host.job] { end_job(job, false); });
  }
}

// --- The batch system

std::vector<launcher::Host> HelperJobs::bring(std::uint32_t missing, const std::set<std::string>& not_these) {
  std::vector<launcher::Host> hosts;
  for (std::uint32_t slots = 0; slots < missing && (hosts.empty() || chance(0.8)); slots += hosts.back().slots) {
    std::string name = "x" + std::to_string(++last_host_);
    std::set<std::string> free = seen_;
    for (const auto& [job, host] : host_of_job_) free.erase(host);
    for (const std::string& host : not_these) free.erase(host);
    if (!free.empty() && chance(0.4)) name = *free.begin();
    seen_.insert(name);
    hosts.push_back({name, whole(1, 3), "job" + std::to_string(++last_job_)});
    host_of_job_[hosts.back().job] = name;
    the_.came(name);
  }
  return hosts;
}

void HelperJobs::end_job(const std::string& job, bool is_preempted) {
  const auto found = host_of_job_.find(job);
  if (found == host_of_job_.end()) return;
  const std::string host = found->second;
  host_of_job_.erase(found);
  if (is_preempted) ++preempted;
  const bool again =
      std::any_of(host_of_job_.begin(), host_of_job_.end(), [&](const auto& entry) { return entry.second == host; });
  if (!again) the_.gone(host);
}

void HelperJobs::preempt() {
  if (host_of_job_.empty()) return;
  const auto which = std::next(host_of_job_.begin(), whole(0, static_cast<std::uint32_t>(host_of_job_.size()) - 1));
  end_job(std::string(which->first), true);
}

}  // namespace elastictrain::cluster_core::test
