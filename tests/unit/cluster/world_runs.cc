// Runs of a simulated cluster.
#include "world.h"

#include <algorithm>

namespace elastictrain::cluster_core::test {

void World::submit() {
  if (cluster_ == nullptr) {
    later(1, [this] { submit(); });
    return;
  }
  const std::uint32_t slots = slots_of(hosts_);
  const Owner owner{0, "root", true};
  const Limits limits = settings_.limits(owner);
  JobSpec spec;
  spec.name = "run" + std::to_string(++submitted_);
  spec.arguments = {"--"};
  spec.min = whole(1, std::max(1U, std::min({3U, slots, limits.slots})));
  spec.max = whole(spec.min, 8);
  spec.start = whole(spec.min, spec.max);
  if (settings_.packing && chance(0.8)) spec.min = spec.start = std::min(spec.max, whole(1, 2));
  spec.priority = chance(0.2) ? 1 : 0;
  spec.suspends = chance(0.6);
  spec.stands = chance(0.6);
  spec.samples_total = whole(20, 1500);
  if (scatters_) {
    spec.min = spec.start = whole(1, 2);
    spec.max = std::max(spec.min, whole(1, 3));
    spec.samples_total = chance(0.5) ? whole(20, 300) : whole(1000, 4000);
  }
  if (chance(0.2)) spec.deadline_s = uniform(5, 300);
  spec.one_host = chance(0.1) && spec.min <= std::max_element(hosts_.begin(), hosts_.end(), [](auto& a, auto& b) {
                                               return a.slots < b.slots;
                                             })->slots;
  give(Submit{submitted_, owner, limits, spec, now_s_});
}

// A user's own run, which the cluster did not start.
void World::start_foreign() {
  StandIn run;
  run.name = "foreign";
  run.absent = &absent_;
  run.own = false;
  run.spec.name = run.name;
  run.spec.max = 3;
  run.spec.suspends = chance(0.5);
  run.spec.stands = chance(0.5);
  run.spec.samples_total = whole(20, 500);
  runs_.push_back(run);
  begin_supervisor(runs_.back(), 0);
}

void World::begin_supervisor(StandIn& run, double delay_s) {
  run.alive = true;
  run.finished = false;
  run.told_to_end = false;
  run.trained_s = now_s_;
  if (chance(0.2)) run.seen = 0;
  const auto place = static_cast<std::size_t>(&run - runs_.data());
  if (now_s_ < well_from_s_) {
    run.faults.stalls = chance(0.05);
    run.faults.keeps_slot = chance(0.1);
  }
  later(delay_s, [this, place] {
    runs_[place].begun = true;
    connect(place);
  });
  later(delay_s + 0.1, [this, place, attempt = run.attempt] {
    if (runs_[place].attempt == attempt) tick(place);
  });
}

void World::connect(std::size_t place) {
  StandIn& run = runs_[place];
  if (!run.alive || run.connection != 0) return;
  if (cluster_ == nullptr) return;
  run.connection = ++last_connection_;
  run.joined = false;
  Join join = run.join(run.connection, run.own ? id_text(run.job) : "");
  join.limits = settings_.limits(join.owner);
  give(join);
}

void World::to_run(std::size_t place, std::function<void(StandIn&)> what) {
  later(0.01, [this, place, connection = runs_[place].connection, what = std::move(what)] {
    StandIn& run = runs_[place];
    if (run.connection != connection || !run.alive) return;
    what(run);
  });
}

void World::to_cluster(std::size_t place, Event event) {
  later(0.01, [this, place, connection = runs_[place].connection, event = std::move(event)] {
    if (runs_[place].connection == connection && connection != 0) give(event);
  });
}

// Everything that a run does, a few times a second.
void World::tick(std::size_t place) {
  StandIn& run = runs_[place];
  if (!run.alive) return;
  run.train(now_s_);
  if (!run.faults.stalls) {
    run.look_for_hosts();
    if (run.told_to_end) return end_run(run, 130);
    if (run.own && run.too_few_can_start() && chance(0.3)) return end_run(run, 69);
    if (run.samples >= static_cast<double>(*run.spec.samples_total)) return end_run(run, 0);
    if (run.wants_to_leave() && chance(0.3)) {
      run.lose_processes();
      if (chance(0.3)) return end_run(run, 75);  // or it waits in the same process
    } else if (!run.allowed.empty() || run.wants_to_leave() || run.spec.suspends || run.processes.empty()) {
      if (chance(0.7)) run.follow();
    }
    if (run.joined) {
      Report report = run.report();
      if (run.faults.lies && chance(0.2)) {
        report.lease += chance(0.5) ? 1000 : 0;
        report.holds.push_back({0, 3});
        std::sort(report.holds.begin(), report.holds.end());
        report.holds.erase(std::unique(report.holds.begin(), report.holds.end()), report.holds.end());
      }
      to_cluster(place, report);
    }
  }
  later(uniform(0.2, 0.8), [this, place, attempt = run.attempt, began = run.alive] {
    if (began && runs_[place].attempt == attempt) tick(place);
  });
}

void World::end_run(StandIn& run, int status) {
  run.alive = false;
  run.lose_processes();
  run.allowed.clear();
  run.hold = false;
  run.finished = true;
  run.status = status;
  const auto place = static_cast<std::size_t>(&run - runs_.data());
  const Connection connection = run.connection;
  run.connection = 0;
  if (connection != 0 && run.joined) later(0.01, [this, connection, status] { give(RunEnded{connection, status}); });
  if (connection != 0) later(0.02, [this, connection] { give(Disconnected{connection}); });
  run.joined = false;
  if (run.own) {
    later(0.03, [this, place, job = run.job, attempt = run.attempt, status] {
      give(ProcessEnded{job, attempt, status, false, ""});
      (void)place;
    });
  }
}

// Its processes go on until their grace is over.
void World::kill_supervisor(StandIn& run) {
  if (!run.alive) return;
  run.alive = false;
  run.lost_s = now_s_;
  const Connection connection = run.connection;
  run.connection = 0;
  run.joined = false;
  if (connection != 0) later(0.01, [this, connection] { give(Disconnected{connection}); });
  const auto place = static_cast<std::size_t>(&run - runs_.data());
  if (run.own) {
    later(0.02, [this, job = run.job, attempt = run.attempt] {
      give(ProcessEnded{job, attempt, 137, true, "killed"});
    });
  }
  later(kGrace_s, [this, place, lost_s = run.lost_s] {
    StandIn& then = runs_[place];
    if (!then.alive && then.lost_s == lost_s) then.lose_processes();
  });
  if (!run.own) {
    later(uniform(1, 10), [this, place] {
      ++runs_[place].attempt;
      begin_supervisor(runs_[place], 0.1);
    });
  }
}

}  // namespace elastictrain::cluster_core::test
