// Purpose: a cluster told as a story: what is submitted, reported and ordered, one after the other. Everything that is
// due within a tenth of a second has happened before the next sentence. The journal is kept, so the process can be
// restarted.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster_core::test {

// Four slots of one host, unless told otherwise. Runs do at once what their leases say.
class Story {
 public:
  explicit Story(Settings settings = plain()) : settings_(std::move(settings)) { begin(); }

  // The cluster process is killed and started again.
  void restart() { begin(); }
  // It is killed before the first of these records is written.
  template <class Kind>
  void forget_since() {
    const auto is_one = [](const Record& record) { return std::holds_alternative<Kind>(record); };
    journal_.erase(std::find_if(journal_.begin(), journal_.end(), is_one), journal_.end());
  }

  JobId submit(const std::string& name, std::optional<double> deadline_s, std::uint64_t samples_total) {
    JobSpec spec;
    spec.arguments = {"--"};
    spec.min = 1;
    spec.max = 4;
    spec.start = 4;
    spec.samples_total = samples_total;
    spec.deadline_s = deadline_s;
    return submit(name, spec);
  }

  JobId submit(const std::string& name, JobSpec spec, Limits limits = {}, const Owner& owner = {0, "root", true}) {
    spec.name = name;
    step(Submit{1, owner, limits, spec, now_s_});
    const JobId id = cluster_->jobs().rbegin()->first;
    if (job(id).share > 0) join(id);
    return id;
  }

  void join(JobId id) {
    const Job& job = cluster_->jobs().at(id);
    Join join;
    join.connection = id;
    join.owner = job.owner;
    join.job = id_text(id);
    join.directory = "/runs/" + job.spec.name;
    join.spec = job.spec;
    join.lease = cluster_->book().lease(id).version;
    join.holds = cluster_->book().lease(id).slots;
    step(join);
  }

  // The job has trained so many samples, and says what it has measured, and which hosts it has found lost.
  void report(JobId id, std::uint64_t samples, std::vector<RateSeen> rates, std::vector<std::uint32_t> lost = {}) {
    Report report;
    report.connection = id;
    report.lease = cluster_->book().lease(id).version;
    report.holds = cluster_->book().lease(id).slots;
    report.phase = "training";
    report.workers = static_cast<std::uint32_t>(report.holds.size());
    report.samples = samples;
    report.rates = std::move(rates);
    report.lost_hosts = std::move(lost);
    step(report);
    follow_all();
  }

  void wait(double seconds) { now_s_ += seconds; }
  const Job& job(JobId id) const { return cluster_->jobs().at(id); }
  const Cluster& cluster() const { return *cluster_; }
  const std::vector<Record>& journal() const { return journal_; }
  const std::string& told() const { return told_; }  // the last answer to a request

  static Settings plain() {
    Settings settings;
    settings.policy = "max-min";
    return settings;
  }

  void change_hosts(std::vector<HostLine> hosts) {
    hosts_ = std::move(hosts);
    step(HostsChanged{hosts_});
    follow_all();
  }

  void order(JobId id, Order what) {
    step(Command{1, {0, "root", true}, {}, what, id_text(id), 0});
    follow_all();
  }

  void give(const Event& event) { step(event); }

 private:
  void begin() {
    cluster_ = std::make_unique<Cluster>(settings_);
    for (const Record& record : journal_) cluster_->recall(record, now_s_);
    write(cluster_->begin(now_s_));
    step(HostsChanged{hosts_});
  }

  // All that is due by then is done, too.
  void step(const Event& event) {
    write(cluster_->step(event, now_s_));
    now_s_ += 0.1;
    write(cluster_->step(Tick{}, now_s_));
  }

  void write(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* written = std::get_if<Write>(&action)) journal_.push_back(written->record);
      if (const auto* told = std::get_if<Answer>(&action)) told_ = told->text;
    }
  }

  // Those that have just been given slots come first.
  void follow_all() {
    for (const auto& [id, known] : cluster_->jobs()) {
      if (known.phase == Phase::kQueued && known.share > 0) join(id);
      follow(id);
    }
  }

  void follow(JobId id) {
    const Job& job = cluster_->jobs().at(id);
    const auto& lease = cluster_->book().lease(id);
    if (job.connection == 0 || cluster_->book().seen(id) == lease.version) return;
    Report report;
    report.connection = id;
    report.lease = lease.version;
    report.holds = lease.slots;
    report.samples = job.samples;
    for (const std::uint32_t host : job.lost_hosts) {
      const bool is_leased =
          std::any_of(lease.slots.begin(), lease.slots.end(), [host](auto slot) { return slot.host == host; });
      if (is_leased) report.lost_hosts.push_back(host);  // a run forgets the others
    }
    for (const auto& [workers, one] : job.rates) report.rates.push_back({workers, one.samples_per_s, one.views});
    step(report);
  }

  Settings settings_;
  std::vector<HostLine> hosts_ = {{"h", 4}};
  std::unique_ptr<Cluster> cluster_;
  std::vector<Record> journal_;
  std::string told_;
  double now_s_ = 0;
};

}  // namespace elastictrain::cluster_core::test
