#include "supervisor/cluster_adapter.h"

#include <algorithm>
#include <asio/error_code.hpp>
#include <chrono>
#include <utility>

namespace elastictrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPeriod{1'000};  // of reports
constexpr milliseconds kSoon{20};       // changes of one moment are one report
constexpr Millis kGuardianEnds{2'000};  // the workers of an agent whose process has exited
constexpr Millis kMargin{5'000};        // clocks and loaded machines

Instant now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::steady_clock::now());
}

// A host whose size the cluster does not say has at least the slots that it names.
core::HostSlots host_of(const cluster::HostSlots& leased) {
  return {leased.host, leased.of > 0 ? leased.of : leased.slots.back() + 1, leased.slots};
}

cluster::JobPhase phase_of(const core::RunView& view) {
  if (view.phase == core::RunPhase::kStopping || view.phase == core::RunPhase::kEnded)
    return cluster::JobPhase::kEnding;
  if (view.stands) return cluster::JobPhase::kSuspended;
  if (view.phase == core::RunPhase::kStarting) {
    return view.workers.empty() ? cluster::JobPhase::kWaiting : cluster::JobPhase::kStarting;
  }
  return cluster::JobPhase::kTraining;
}

// The program may say anything.
std::uint64_t whole(double value) {
  return value > 0 && value <= static_cast<double>(cluster::kMaxCount) ? static_cast<std::uint64_t>(value) : 0;
}

}  // namespace

ClusterSide::ClusterSide(asio::io_context& io, cluster::RunLink* link, ClusterSideSettings settings, Run run)
    : link_(link), settings_(std::move(settings)), run_(std::move(run)), observer_(settings_.observer), timer_(io) {}

void ClusterSide::begin() {
  if (link_ == nullptr) return;
  open_ = true;
  link_->follow({[this](const cluster::Lease& lease) { leased(lease); },
                 [this](const cluster::QueuePlace& place) { queued(place); },
                 [this](const cluster::End& end) {
                   run_.tell("cluster " + link_->cluster() + " ends the run: " + end.why);
                   run_.feed(core::Stop{0, core::StopCause::kCancelled});
                 }});
  report();
}

void ClusterSide::close() {
  if (link_ == nullptr || !open_) return;
  open_ = false;
  life_.reset();
  timer_.cancel();
  link_->unfollow();
}

void ClusterSide::leased(const cluster::Lease& lease) {
  core::LeaseGiven given{
      .version = lease.version, .hosts = {}, .reason = lease.reason, .hold = lease.hold, .moves = lease.moves};
  for (const cluster::HostSlots& host : lease.slots) given.hosts.push_back(host_of(host));
  if (!given.hosts.empty()) queued_.clear();
  rates_.set_beside(lease.beside);
  run_.feed(std::move(given));
  changed();
}

void ClusterSide::queued(const cluster::QueuePlace&) {
  const std::string text = waits();
  if (std::exchange(queued_, text) != text && !text.empty()) run_.tell(text);
}

std::string ClusterSide::waits() const {
  if (link_ == nullptr) return "";
  const auto& lease = link_->lease();
  if (lease && lease->hold) return "suspended in memory by cluster " + link_->cluster() + ": " + lease->reason;
  const auto& place = link_->queue();
  if (!place) return "";
  return "waiting for slots: place " + std::to_string(place->place) + " of " + std::to_string(place->of) +
         " in the queue of cluster " + link_->cluster() + (place->why.empty() ? "" : ": " + place->why);
}

void ClusterSide::take_over(const core::Resumed& resumed) {
  if (link_ == nullptr) return;
  for (const auto& worker : resumed.workers) {
    const auto agent = std::find_if(resumed.agents.begin(), resumed.agents.end(),
                                    [&](const auto& place) { return place.agent == worker.agent; });
    if (agent != resumed.agents.end()) {
      link_->holds().started(worker.worker, worker.agent, agent->host, worker.slot);
    }
  }
  for (const auto& agent : resumed.agents) hosts_[agent.agent] = agent.host;
  for (const auto& agent : resumed.agents) agent_lost(agent.agent, core::LossEvidence::kConnection);
}

void ClusterSide::spawned(const core::SpawnWorker& spawn) {
  if (link_ == nullptr) return;
  hosts_[spawn.agent] = spawn.host;
  link_->holds().started(spawn.worker, spawn.agent, spawn.host, spawn.slot);
  changed();
}

void ClusterSide::ended(WorkerId worker, AgentId agent) {
  if (link_ == nullptr || warm_[agent].contains(worker)) return;
  link_->holds().ended(worker, agent);
  changed();
}

void ClusterSide::agent_lost(AgentId agent, core::LossEvidence evidence) {
  if (link_ == nullptr) return;
  Millis longest = settings_.orphan_grace + settings_.grace + kMargin;
  if (evidence == core::LossEvidence::kNeverCame || evidence == core::LossEvidence::kNotYet) longest = Millis(0);
  if (evidence == core::LossEvidence::kProcess) longest = kGuardianEnds;
  link_->holds().out_of_reach(agent, now() + longest);
  changed();
}

void ClusterSide::agent_back(AgentId agent, std::vector<WorkerId> living,
                             const std::vector<protocol::WarmProcess>& processes) {
  if (link_ == nullptr) return;
  for (const auto& process : processes) living.push_back(process.worker);
  link_->holds().back(agent, living);
  warm(agent, processes);
}

void ClusterSide::warm(AgentId agent, const std::vector<protocol::WarmProcess>& processes) {
  if (link_ == nullptr) return;
  std::set<WorkerId> now;
  for (const auto& process : processes) {
    now.insert(process.worker);
    if (!link_->holds().has(process.worker)) {
      link_->holds().started(process.worker, agent, hosts_[agent], process.slot);
    }
  }
  for (const WorkerId before : std::exchange(warm_[agent], now)) {
    if (!now.contains(before)) link_->holds().ended(before, agent);
  }
  changed();
}

void ClusterSide::planned(const protocol::GenerationPlan& plan) {
  if (link_ == nullptr || plan.members.empty()) return;
  std::uint64_t batch = 0;
  for (const auto& member : plan.members) batch += member.share;
  observer_.planned(plan.generation, plan.members.front().worker, static_cast<std::uint32_t>(plan.members.size()),
                    batch);
}

void ClusterSide::on_heartbeat(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat) {
  if (link_ != nullptr) observer_.on_heartbeat(worker, heartbeat, run_.up_s());
}

void ClusterSide::changed() {
  if (!open_ || std::exchange(soon_, true)) return;
  schedule(kSoon);
}

void ClusterSide::schedule(milliseconds delay) {
  timer_.expires_after(delay);
  timer_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (!error && !life.expired()) report();
  });
}

void ClusterSide::report() {
  soon_ = false;
  link_->holds().pass(now());
  link_->report(make_report());
  schedule(kPeriod);
}

cluster::Report ClusterSide::make_report() {
  const core::RunView run = run_.view();
  const heuristics::ClusterView seen = observer_.take(run, run_.up_s());
  const heuristics::JobView& job = seen.jobs.front();
  std::set<std::string> hosts;
  for (const core::WorkerView& worker : run.workers) {
    if (worker.phase == core::WorkerPhase::kMember) hosts.insert(worker.host);
  }
  // Of the intervals of a report in which workers have moved, nobody can say on how many hosts they were.
  const bool moved = !hosts_before_.empty() && hosts_before_ != hosts;
  if (!moved) rates_.add(job.intervals, static_cast<std::uint32_t>(hosts.size()));
  hosts_before_ = std::move(hosts);
  cluster::Report report;
  report.lease = run.lease ? run.lease->version : 0;
  report.holds = link_->holds().slots();
  report.phase = phase_of(run);
  report.workers = run.world_size;
  report.step = whole(job.steps_done);
  report.samples = whole(job.samples_done);
  if (const std::uint64_t total = whole(job.samples_total)) report.samples_total = total;
  if (const auto expected = run_.expected_length(run)) {
    report.expected_samples = whole(expected->samples);
    report.expected_error = whole(expected->error);
  }
  for (const auto& at : run_.goodput()) report.goodput.push_back({at.workers, at.rate});
  report.rates = rates_.rates();
  report.packed_rates = rates_.packed_rates();
  if (run.asked_size < settings_.observer.max_workers) report.wants = run.asked_size;
  for (const core::AgentView& agent : run.agents) {
    if (agent.gone) report.lost_hosts.push_back(agent.host);
  }
  return report;
}

}  // namespace elastictrain
