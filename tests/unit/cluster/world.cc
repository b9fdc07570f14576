#include "world.h"

#include <algorithm>

namespace elastictrain::cluster_core::test {
namespace {

namespace leases = heuristics::leases;

constexpr double kUntilWell_s = 120;
constexpr double kLimit_s = 6000;

std::string text_of(const leases::Slots& slots) {
  std::string text = " [";
  for (const auto slot : slots) text += std::to_string(slot.host) + ":" + std::to_string(slot.number) + " ";
  return text + "]";
}

// All that a journal says of its jobs.
std::string text_of(const Cluster& cluster) {
  std::string text;
  for (const HostLine& host : cluster.hosts()) text += host.name + ":" + std::to_string(host.slots) + " ";
  const leases::LeaseBook& book = cluster.book();
  for (const auto& [id, job] : cluster.jobs()) {
    text += "\n" + id_text(id) + " " + job.spec.name + " " + name_of(job.phase) + " " + job.why + " " + job.directory;
    for (const std::uint64_t number :
         {std::uint64_t{job.share}, std::uint64_t{job.attempt}, std::uint64_t{job.paused}, std::uint64_t{job.resume},
          static_cast<std::uint64_t>(job.pid), job.samples, static_cast<std::uint64_t>(job.exit_status),
          std::uint64_t{job.spec.suspends}, static_cast<std::uint64_t>(job.spec.priority), book.lease(id).version,
          std::uint64_t{book.lease(id).hold}, book.seen(id), std::uint64_t{book.in_use(id)}, std::uint64_t{job.beside},
          std::uint64_t{book.lease(id).beside}, std::uint64_t{book.lease(id).moves},
          std::uint64_t{job.move.has_value()}, std::uint64_t{job.trial.has_value()}}) {
      text += " " + std::to_string(number);
    }
    text += text_of(book.lease(id).slots) + text_of(book.owned(id)) + text_of(book.held(id)) + text_of(book.parked(id));
  }
  return text + "\n";
}

// What each job that moves is about.
std::map<JobId, std::string> moving(const Cluster& cluster) {
  std::map<JobId, std::string> moves;
  for (const auto& [id, job] : cluster.jobs()) {
    if (!job.move) continue;
    const Move& move = *job.move;
    moves[id] =
        text_of(move.from) + text_of(move.to) + text_of(move.kept) + (move.undoes ? " undoes " : " ") + move.why;
  }
  return moves;
}

}  // namespace

World::World(std::uint64_t seed) : rng_(seed), helpers_(surroundings()), own_policy_(seed) {
  const char* const policies[] = {"fifo",  "srtf",    "max-min", "tiresias-l", "afs-l",
                                  "afs-p", "gandiva", "optimus", "worth"};
  settings_.policy = policies[whole(0, 8)];
  settings_.slice_s = chance(0.3) ? uniform(2, 10) : 0;
  if (chance(0.15)) settings_.policy = "gandiva";
  settings_.packing = settings_.policy == "gandiva" && chance(0.8);
  if (settings_.packing) settings_.slice_s = uniform(2, 10);
  settings_.decide_after_s = uniform(0, 0.5);
  settings_.recall_timeout_s = uniform(5, 12);
  settings_.resume_timeout_s = uniform(2, 6);
  settings_.join_timeout_s = uniform(8, 30);
  settings_.orphan_grace_s = kGrace_s + 1;
  settings_.suspended_per_slot = chance(0.5) ? whole(1, 3) : 0;
  settings_.migration = chance(0.8);
  settings_.kept_ended = chance(0.5) ? whole(1, 4) : 1000;
  settings_.seed = seed;
  settings_.outside = seed % 5 == 0;
  const std::uint32_t limit = chance(0.3) ? whole(2, 5) : kNoLimit;
  settings_.limits = [limit](const Owner&) { return Limits{.slots = limit, .priority = 5}; };
  const std::uint32_t count = whole(1, 4);
  for (std::uint32_t host = 0; host < count; ++host) hosts_.push_back({"h" + std::to_string(host), whole(1, 4)});
  to_submit_ = whole(1, 8);
  scatters_ = chance(0.3);
  if (scatters_) {
    while (hosts_.size() < 3) hosts_.push_back({"h" + std::to_string(hosts_.size()), 1});
    for (HostLine& host : hosts_) host.slots = whole(2, 3);
    to_submit_ = whole(5, 10);
  }
  has_helpers_ = chance(0.25);
  if (has_helpers_) settings_.most_slots = slots_of(hosts_) + whole(1, 8);
  runs_.reserve(200);
}

std::string World::run() {
  well_from_s_ = kUntilWell_s;
  start_cluster();
  for (std::uint32_t i = 0; i < to_submit_; ++i) later(uniform(0, 60), [this] { submit(); });
  if (chance(0.5)) later(uniform(0, 60), [this] { start_foreign(); });
  if (has_helpers_) later(1, [this] { look_at_hosts(); });
  const auto faults = whole(0, 12);
  for (std::uint32_t i = 0; i < faults; ++i) later(uniform(1, kUntilWell_s), [this] { fault(); });
  later(kUntilWell_s, [this] {
    for (StandIn& one : runs_) one.faults = {};
    if (cluster_ == nullptr) start_cluster();
    listed_ = hosts_;
    give(HostsChanged{with_helpers()});
    std::vector<JobId> paused;
    for (const auto& [id, job] : cluster_->jobs()) {
      if (job.paused) paused.push_back(id);
    }
    for (const JobId id : paused) give(Command{3, {0, "root", true}, {}, Order::kResume, id_text(id), 0});
  });
  while (problem_.empty() && !queue_.empty() && now_s_ < kLimit_s) {
    Entry next = queue_.top();
    queue_.pop();
    now_s_ = std::max(now_s_, next.at_s);
    next.what();
    ++happened_;
    check();
    if (now_s_ > kUntilWell_s && left_over().empty()) break;
  }
  if (problem_.empty() && !left_over().empty()) fail("policy " + settings_.policy + ": not over: " + left_over());
  return problem_;
}

std::string World::left_over() const {
  std::string left;
  if (cluster_ == nullptr) return "the cluster process";
  if (helpers_.any_job()) left = "helper jobs; ";
  for (const auto& [id, job] : cluster_->jobs()) {
    if (job.live()) {
      left += id_text(id) + " " + name_of(job.phase) + " share " + std::to_string(job.share) + " min " +
              std::to_string(job.spec.min) + " failures " + std::to_string(job.failures) +
              (job.paused ? " paused" : "") + " (" + job.why + "); ";
    }
  }
  return left;
}

// --- The cluster process

void World::start_cluster() {
  cluster_ = recalled();
  ++process_;
  if (moving(*cluster_) != moving_) fail("the journal says other things of the workers that move");
  if (chance(0.5)) shorten_journal();
  helpers_.begin(cluster_->helpers());
  carry_out(cluster_->begin(now_s_));
  listed_ = hosts_;
  give(HostsChanged{with_helpers()});
  for (std::size_t place = 0; place < runs_.size(); ++place) {
    if (runs_[place].alive) later(uniform(0, settings_.resume_timeout_s * 1.3), [this, place] { connect(place); });
  }
}

std::unique_ptr<Cluster> World::recalled() const {
  auto cluster = std::make_unique<Cluster>(settings_);
  for (const Record& record : journal_) cluster->recall(record, now_s_);
  return cluster;
}

// What is left of the journal says the same.
void World::shorten_journal() {
  std::erase_if(journal_, [&](const Record& record) { return !cluster_->needs(record); });
  const std::string whole = text_of(*cluster_), shorter = text_of(*recalled());
  if (whole != shorter) fail("the journal says\n" + whole + "and shortened\n" + shorter);
}

void World::kill_cluster() {
  if (cluster_ == nullptr) return;
  moving_ = moving(*cluster_);
  helpers_.kill();
  cluster_.reset();
  for (StandIn& run : runs_) {
    run.connection = 0;
    run.joined = false;
  }
  later(uniform(0.1, 10), [this] {
    if (cluster_ == nullptr) start_cluster();
  });
}

void World::give(const Event& event) {
  if (cluster_ == nullptr) return;
  const Actions actions = cluster_->step(event, now_s_);
  const bool dies = now_s_ < well_from_s_ && chance(0.002);
  for (const Action& action : actions) {  // the edge writes and syncs all records of a step first
    if (const auto* written = std::get_if<Write>(&action)) write(written->record);
  }
  if (dies) return kill_cluster();
  for (const Action& action : actions) carry_out(action);
  wake();
}

void World::write(const Record& record) {
  journal_.push_back(record);
  learn_pairs(record);
  count_moves(record);
  if (const auto* hosts = std::get_if<record::Hosts>(&record)) journal_hosts_ = hosts->hosts;
}

// One of the two is not there any more; `slots` null: nowhere.
void World::part(JobId job, const Slots* slots) {
  for (auto& [slot, pairs] : pairs_) {
    if (slots != nullptr && std::find(slots->begin(), slots->end(), slot) == slots->end()) continue;
    std::erase_if(pairs, [job](const auto& pair) { return pair.first == job || pair.second == job; });
  }
}

void World::count_moves(const Record& record) {
  const auto* ended = std::get_if<record::MoveEnded>(&record);
  if (ended != nullptr) ++moves_[ended->outcome];
}

void World::learn_pairs(const Record& record) {
  if (const auto* leased = std::get_if<record::Leased>(&record)) {
    for (const Slot slot : leased->slots) {
      // Whoever was there beside it is there until it has given back the slot.
      if (leased->beside != 0) pairs_[slot].insert(std::minmax(leased->job, leased->beside));
    }
  } else if (const auto* returned = std::get_if<record::Returned>(&record)) {
    part(returned->job, &returned->slots);
  } else if (const auto* stood = std::get_if<record::Stood>(&record)) {
    part(stood->job, &stood->slots);
  } else if (const auto* ended = std::get_if<record::HasEnded>(&record)) {
    part(ended->job, nullptr);
  } else if (const auto* decided = std::get_if<record::Decided>(&record)) {
    for (const record::Share& share : decided->shares) {
      if (share.why.find("undone") != std::string::npos) ++undone_;
      if (share.why.find("packing_kept") != std::string::npos) ++kept_;
    }
  }
}

void World::wake() {
  if (cluster_ == nullptr) return;
  const double at_s = cluster_->wake_s(now_s_);
  // One timer, set anew after every event: what a busy cluster always puts off never comes.
  ++timer_;
  if (at_s == kNever) return;
  later(std::max(0.001, at_s - now_s_), [this, timer = timer_] {
    if (timer == timer_ && cluster_ != nullptr) give(Tick{});
  });
}

void World::carry_out(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* written = std::get_if<Write>(&action)) write(written->record);
  }
  for (const Action& action : actions) carry_out(action);
  wake();
}

std::size_t World::run_of(Connection connection) const {
  for (std::size_t place = 0; place < runs_.size(); ++place) {
    if (runs_[place].connection == connection && connection != 0) return place;
  }
  return runs_.size();
}

std::size_t World::run_of_job(JobId job) {
  const auto found = run_of_job_.find(job);
  if (found != run_of_job_.end()) return found->second;
  StandIn run;
  run.job = job;
  run.spec = cluster_->jobs().at(job).spec;
  run.name = run.spec.name;
  run.knows_moves = chance(0.8);
  run.absent = &absent_;
  runs_.push_back(run);
  return run_of_job_[job] = runs_.size() - 1;
}

void World::carry_out(const Action& action) {
  if (const auto* welcome = std::get_if<Welcome>(&action)) {
    const std::size_t place = run_of(welcome->connection);
    if (place == runs_.size()) return;
    runs_[place].joined = true;
    runs_[place].job = welcome->job;
    run_of_job_[welcome->job] = place;
  } else if (const auto* refuse = std::get_if<Refuse>(&action)) {
    const std::size_t place = run_of(refuse->connection);
    if (place == runs_.size()) return;
    runs_[place].connection = 0;
    runs_[place].joined = false;
    runs_[place].faults.lies = false;
    later(uniform(0.5, 2), [this, place] { connect(place); });
  } else if (const auto* lease = std::get_if<SendLease>(&action)) {
    const auto* recorded = [&]() -> const record::Leased* {
      for (auto one = journal_.rbegin(); one != journal_.rend(); ++one) {
        const auto* found = std::get_if<record::Leased>(&*one);
        if (found != nullptr && found->version == lease->version && found->slots == lease->slots &&
            found->hold == lease->hold && found->beside == lease->beside && found->moves == lease->moves)
          return found;
      }
      return nullptr;
    }();
    if (recorded == nullptr && !lease->slots.empty()) fail("a lease was sent that is not in the journal");
    const std::size_t place = run_of(lease->connection);
    if (place < runs_.size() && lease->moves && !runs_[place].knows_moves) {
      fail(runs_[place].name + " is told to exchange slots and does not know how");
    }
    if (place < runs_.size() && lease->moves) disturb_move(place);
    if (place < runs_.size()) {
      to_run(place, [lease = *lease](StandIn& run) {
        run.take(lease.version, lease.slots, lease.hold, lease.beside, lease.moves);
      });
    }
  } else if (const auto* end = std::get_if<SendEnd>(&action)) {
    const std::size_t place = run_of(end->connection);
    if (place < runs_.size()) to_run(place, [](StandIn& run) { run.told_to_end = true; });
  } else if (const auto* start = std::get_if<StartRun>(&action)) {
    const std::size_t place = run_of_job(start->job);
    if (runs_[place].alive) {  // its directory is in use
      later(0.2, [this, job = start->job, attempt = start->attempt] {
        give(ProcessEnded{job, attempt, 69, false, "in use"});
      });
      return;
    }
    runs_[place].attempt = start->attempt;
    begin_supervisor(runs_[place], uniform(0.1, 2));
  } else if (const auto* signal = std::get_if<SignalRun>(&action)) {
    const std::size_t place = run_of_job(signal->job);
    if (signal->kill) {
      kill_supervisor(runs_[place]);
    } else if (!runs_[place].faults.stalls) {
      runs_[place].told_to_end = true;
    }
  } else if (const auto* ask = std::get_if<AskPolicy>(&action)) {
    later(own_policy_.thinks_s(), [this, ask = *ask, process = process_] {
      if (cluster_ == nullptr || process != process_) return;
      give(own_policy_.answer(ask, now_s_ >= well_from_s_));
    });
  } else if (const auto* probe = std::get_if<Probe>(&action)) {
    later(uniform(0, 0.2), [this, job = probe->job] {
      if (cluster_ == nullptr || !cluster_->jobs().contains(job)) return;
      const StandIn& run = runs_[run_of_job(job)];
      give(Probed{job, state_of(run), run.status});
    });
  }
}

Probed::State World::state_of(const StandIn& run) const {
  using State = Probed::State;
  if (!run.own) return State::kUnknown;
  if (run.finished) return State::kEnded;
  if (run.alive) return State::kAlive;
  return run.begun ? State::kDead : State::kNoRun;
}

}  // namespace elastictrain::cluster_core::test
