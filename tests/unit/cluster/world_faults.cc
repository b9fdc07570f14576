// What happens to a simulated cluster: helper jobs, faults; and what must hold after every event.
#include "world.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::cluster_core::test {

// --- Helper jobs

HelperJobs::Surroundings World::surroundings() {
  HelperJobs::Surroundings given;
  given.uniform = [this](double low, double high) { return uniform(low, high); };
  given.later = [this](double delay_s, Do what) { later(delay_s, std::move(what)); };
  given.now_s = [this] { return now_s_; };
  given.demand = [this]() -> std::optional<SlotDemand> {
    if (cluster_ == nullptr || cluster_->resuming()) return std::nullopt;
    return cluster_->demand();
  };
  given.changed = [this](const HelpersChanged& change) { give(change); };
  given.gone = [this](const std::string& host) { lose_host(place_of(host)); };
  given.came = [this](const std::string& host) { absent_.erase(place_of(host)); };
  given.most_slots = [this] { return std::max(settings_.most_slots, slots_of(with_helpers())); };
  given.slots = [this] { return slots_of(with_helpers()); };
  given.user_of = [this](const std::string& host) { return user_of(host); };
  given.fail = [this](const std::string& problem) { fail(problem); };
  return given;
}

void World::look_at_hosts() {
  helpers_.look();
  give(HostsChanged{with_helpers()});
  later(uniform(0.5, 1.5), [this] { look_at_hosts(); });
}

std::vector<HostLine> World::with_helpers() const {
  std::vector<HostLine> hosts = listed_;
  const auto more = helpers_.hosts();
  hosts.insert(hosts.end(), more.begin(), more.end());
  return hosts;
}

std::uint32_t World::place_of(const std::string& host) const {
  const auto found = std::find_if(journal_hosts_.begin(), journal_hosts_.end(),
                                  [&](const HostLine& line) { return line.name == host; });
  return static_cast<std::uint32_t>(found - journal_hosts_.begin());
}

void World::lose_host(std::uint32_t place) {
  if (place == journal_hosts_.size()) return;  // it never got into the list
  absent_.insert(place);
  for (StandIn& run : runs_) run.lose_host(place);
}

std::string World::user_of(const std::string& host) const {
  const std::uint32_t place = place_of(host);
  for (const StandIn& run : runs_) {
    const Slots held = run.holds();
    if (std::any_of(held.begin(), held.end(), [&](Slot slot) { return slot.host == place; })) return run.name;
  }
  return "";
}

// --- Faults and checks

// In the middle of a move: the new workers do not start, a host is lost, the cluster process is killed.
void World::disturb_move(std::size_t place) {
  if (now_s_ > well_from_s_ - 5) return;
  switch (whole(0, 9)) {
    case 0:
    case 1:
      return forbid_starts(place, uniform(10, 60));
    case 2:
      return later(uniform(0, 2), [this] { lose_hosts(); });
    case 3:
      return later(uniform(0, 2), [this] { kill_cluster(); });
    case 4:
      return later(uniform(0, 2), [this, place] { kill_supervisor(runs_[place]); });
    default:
      return;
  }
}

void World::forbid_starts(std::size_t place, double for_s) {
  runs_[place].faults.cannot_start = true;
  later(for_s, [this, place] { runs_[place].faults.cannot_start = false; });
}

void World::lose_hosts() {
  listed_ = hosts_;
  if (listed_.size() > 1) listed_.pop_back();
  give(HostsChanged{with_helpers()});
}

// Whoever lists hosts does not notice.
void World::switch_off_host() {
  if (journal_hosts_.empty()) return;
  const std::uint32_t place = whole(0, static_cast<std::uint32_t>(hosts_.size()) - 1);
  lose_host(place_of(hosts_[place].name));
  later(uniform(1, 60), [this, host = hosts_[place].name] { absent_.erase(place_of(host)); });
}

void World::fault() {
  if (runs_.empty()) return;
  StandIn& run = runs_[whole(0, static_cast<std::uint32_t>(runs_.size()) - 1)];
  if (has_helpers_ && chance(0.3)) return helpers_.preempt();
  switch (whole(0, 8)) {
    case 0:
      return kill_cluster();
    case 7:
      return switch_off_host();
    case 1:
      return kill_supervisor(run);
    case 2:
      run.faults.stalls = true;
      return later(uniform(1, 40), [this, place = static_cast<std::size_t>(&run - runs_.data())] {
        runs_[place].faults.stalls = false;
      });
    case 3:
      run.faults.lies = true;
      return;
    case 4: {  // the connection breaks
      const Connection connection = run.connection;
      run.connection = 0;
      run.joined = false;
      give(Disconnected{connection});
      return later(uniform(0.1, 5), [this, place = static_cast<std::size_t>(&run - runs_.data())] { connect(place); });
    }
    case 6:
      return forbid_starts(static_cast<std::size_t>(&run - runs_.data()), uniform(1, 60));
    case 5:
      return lose_hosts();
    default: {
      const Order orders[] = {Order::kCancel, Order::kPause, Order::kPriority};
      const Order order = orders[whole(0, 2)];
      give(Command{1, {0, "root", true}, {}, order, id_text(run.job), 2});
      if (order != Order::kPause) return;
      return later(uniform(1, 20), [this, job = run.job] {
        give(Command{2, {0, "root", true}, {}, Order::kResume, id_text(job), 0});
      });
    }
  }
}

void World::check() {
  std::map<Slot, const StandIn*> used, twice;
  for (const StandIn& run : runs_) {
    for (const Slot slot : run.holds()) {
      if (!run.computes_on(slot)) continue;
      const auto [other, first] = used.emplace(slot, &run);
      if (first) continue;
      const auto pairs = pairs_.find(slot);
      const bool packed = pairs != pairs_.end() && pairs->second.contains(std::minmax(other->second->job, run.job));
      if (packed && twice.emplace(slot, &run).second) continue;
      fail("slot " + std::to_string(slot.host) + ":" + std::to_string(slot.number) + " has processes of " +
           other->second->name + " and " + run.name + (packed ? ", and of a third one" : ""));
    }
  }
  if (cluster_ == nullptr) return;
  const auto broken = cluster_->broken_rules();
  if (!broken.empty()) fail(broken.front());
  for (const auto& [id, job] : cluster_->jobs()) {
    const std::uint64_t version = cluster_->book().lease(id).version;
    if (job.live() && version < versions_[id]) fail("the lease of " + id_text(id) + " went back to an older version");
    versions_[id] = version;
    for (const auto& [workers, measured] : job.rates) {
      const bool alone = std::abs(measured.samples_per_s - rate_of(workers)) < 1e-9 ||
                         std::abs(measured.samples_per_s - rate_of(workers) * speed_on(id, 2)) < 1e-9;
      if (alone) continue;
      fail(id_text(id) + " is taken to be as fast with " + std::to_string(workers) + " workers as beside another job");
    }
  }
}

}  // namespace elastictrain::cluster_core::test
