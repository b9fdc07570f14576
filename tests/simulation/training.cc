// The training thread of a simulated worker: how a session joins a generation, runs steps, changes and recoveries, and
// leaves. It calls the machine in the order that worker_machine.h requires.
#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/simulation/worker_process.h"
#include "tests/simulation/world.h"

namespace elastictrain::simulation {
namespace {

using namespace protocol;
constexpr Micros kForever{3'600'000'000};
constexpr Micros kLongestEnd{15'000'000};

}  // namespace

// ---------------------------------------------------------------------------------------------------------------
// Waiting

Task<> WorkerProcess::sleep(Micros time) {
  const WaitPoint::Arrange arrange = [this, time](WaitPoint::Ticket ticket) {
    world_.queue.after(time, [this, ticket, life = std::weak_ptr(life_)] {
      if (life.expired()) return;
      deliver([this, ticket] {
        if (!hung_) wait_.wake(ticket);
      });
    });
  };
  co_await wait_.wait(arrange);
}

Task<> WorkerProcess::poked() {
  if (std::exchange(poked_, false)) co_return;
  const WaitPoint::Arrange arrange = [this](WaitPoint::Ticket) { waits_for_poke_ = true; };
  co_await wait_.wait(arrange);
  poked_ = false;
}

void WorkerProcess::poke() {
  poked_ = true;
  if (!std::exchange(waits_for_poke_, false)) return;
  world_.queue.after(Micros(5), [this, ticket = wait_.ticket(), life = std::weak_ptr(life_)] {
    if (life.expired()) return;
    deliver([this, ticket] {
      if (!hung_) wait_.wake(ticket);
    });
  });
}

Task<std::optional<WorkerProcess::Assignment>> WorkerProcess::next_assignment() {
  while (true) {
    auto assignment = machine_.take_assignment(false);
    carry_out();
    if (assignment || orphaned_) co_return assignment;
    co_await poked();
  }
}

Task<std::optional<Sum>> WorkerProcess::collective(Part part) {
  std::optional<Sum> result;
  const WaitPoint::Arrange arrange = [this, &result, &part](WaitPoint::Ticket ticket) {
    world_.plane.reduce(id_, assignment_, part,
                        [this, ticket, &result, life = std::weak_ptr(life_)](std::optional<Sum> sum) {
                          if (life.expired()) return;
                          deliver([this, ticket, &result, sum = std::move(sum)] {
                            if (hung_ || !wait_.waits_for(ticket)) return;
                            result = sum;
                            wait_.wake(ticket);
                          });
                        });
  };
  co_await wait_.wait(arrange);
  co_return result;
}

// As NCCL's, which may join threads, or wait for the device and for other ranks.
Task<> WorkerProcess::end_collective() {
  if (world_.fault_rates.late_end == 0 || !world_.lateness.chance(world_.fault_rates.late_end)) co_return;
  const Micros time = world_.lateness.time(Micros(0), kLongestEnd);
  world_.log(id_, [&] { return "is held by its collective for " + std::to_string(time.count() / 1'000) + " ms"; });
  says_held_ = world_.lateness.chance(0.5);
  late_since_ = world_.queue.now();
  co_await sleep(time);
  late_since_.reset();
}

// ---------------------------------------------------------------------------------------------------------------
// The start

Task<> WorkerProcess::live() {
  const Program& program = world_.setup.program;
  const Micros start = warm_ ? Micros(1'000) : world_.rng.time(program.start_min, program.start_max);
  co_await sleep(never_ready_ ? kForever : start);
  WorkerReady ready;
  ready.state_bytes = 1'000;
  ready.state_layout_hash = 7;
  ready.sample_count = program.samples;
  say(ready);
  Entry entry = Entry::kAgain;
  while (entry == Entry::kAgain) entry = co_await get_in();
  if (entry == Entry::kIn) co_await train();
  send_audits();
  die(0, 0);
}

Task<WorkerProcess::Entry> WorkerProcess::get_in() {
  std::optional<Assignment> assignment = co_await next_assignment();
  if (!assignment || assignment->kind != AssignmentKind::kPlanned) co_return Entry::kOut;
  const bool first = assignment->plan.donors.empty();
  take(std::move(*assignment));
  Entry entry = Entry::kAgain;
  if (first) {
    entry = co_await begin_first_generation();
  } else {
    entry = co_await join();
  }
  co_return entry;
}

Task<WorkerProcess::Entry> WorkerProcess::begin_first_generation() {
  chain_ = 0;
  progress_ = {};
  progress_.sampler.seed = 7;
  if (rank() == 0) {
    load_checkpoint();
    world_.broadcasts[assignment_.generation] = {chain_, progress_, {}};
  }
  Part part;
  part.what = "the first broadcast";
  const std::optional<Sum> sum = co_await collective(std::move(part));
  if (!sum) {
    machine_.collective_failed("the first broadcast failed");
    carry_out();
    co_return Entry::kAgain;
  }
  const Snapshot& given = world_.broadcasts[assignment_.generation];
  chain_ = given.chain;
  progress_ = given.progress;
  const bool in = machine_.enter_loop(progress_.committed_step, true);
  carry_out();
  if (!in) co_return Entry::kAgain;
  remember_shares(assignment_, true);
  first_step_ = true;
  world_.oracle.begins_afresh(assignment_.generation, progress_.committed_step + 1);
  if (rank() == 0 && !world_.disk.checkpoints.empty() && !world_.disk.full) {
    world_.disk.fences.push_back({assignment_.generation, progress_.committed_step + 1});
    world_.oracle.writes_fence(assignment_.generation);
  }
  // From here on the account of the state has all that those who are gone could not tell.
  if (rank() == 0) world_.unreported.clear();
  if (rank() == 0 && progress_.committed_step > 0) {
    account_for_state(assignment_.generation, progress_);
    send_audits();
  } else {
    received_ = Received{assignment_.generation, progress_};
  }
  say(WorkerActive{assignment_.generation, progress_.committed_step + 1, 0});
  co_return Entry::kIn;
}

// Nobody among the members came later than another one, as where all older ones are lost.
bool WorkerProcess::all_came_together() const {
  const auto came = [this](const Member& member) {
    const auto found = world_.came.find(member.worker);
    return found == world_.came.end() ? Generation{0} : found->second;
  };
  return std::all_of(assignment_.members.begin(), assignment_.members.end(),
                     [&](const Member& member) { return came(member) == came(assignment_.members.front()); });
}

Task<WorkerProcess::Entry> WorkerProcess::join() {
  world_.came.try_emplace(id_, assignment_.generation);
  const bool came = co_await wait_for_header();
  if (!came) co_return Entry::kAgain;
  const double odd = world_.fault_rates.odd;
  if (odd > 0 && world_.oddness.chance(odd)) {
    world_.log(id_, [] { return "holds another value than the others"; });
    world_.odd.insert(id_);
  }
  co_return Entry::kIn;
}

// ---------------------------------------------------------------------------------------------------------------
// The loop

Task<> WorkerProcess::train() {
  bool goes_on = true;
  while (goes_on) {
    if (used_up()) {
      goes_on = co_await finish();
    } else {
      goes_on = co_await run_step();
    }
  }
}

bool WorkerProcess::used_up() const {
  const Program& program = world_.setup.program;
  if (program.max_steps != 0 && progress_.committed_step >= program.max_steps) return true;
  return progress_.sampler.epoch >= program.epochs;
}

Task<bool> WorkerProcess::run_step() {
  const Program& program = world_.setup.program;
  open_step();
  co_await sleep(world_.rng.time(program.compute_min, program.compute_max) * host_.slowness);
  bool discarded = false;
  for (std::uint32_t bucket = 0; bucket <= program.buckets && !discarded;) {
    const std::string what = "step " + std::to_string(progress_.committed_step + 1) + "." + std::to_string(bucket);
    if (bucket == program.buckets && !sees_another_value()) break;
    const Reduced reduced = bucket == program.buckets ? co_await disagree() : co_await reduce(what, true);
    if (reduced == Reduced::kEnd) co_return false;
    if (reduced == Reduced::kRepeat) bucket = 0;
    if (reduced == Reduced::kDone) ++bucket;
    discarded = reduced == Reduced::kDiscard;
  }
  co_await sleep(program.update * host_.slowness);
  if (discarded) {
    machine_.step_discarded();
    carry_out();
    const bool back = co_await rejoin();
    co_return back;
  }
  const std::uint64_t epoch = progress_.sampler.epoch;
  commit();
  const bool goes_on = cross_boundary();
  if (goes_on && progress_.sampler.epoch != epoch) co_await sleep(program.evaluation);
  co_return goes_on;
}

// The first rank always, the others by chance: they compare their values at other times.
bool WorkerProcess::sees_another_value() const {
  const bool is_odd = std::any_of(assignment_.members.begin(), assignment_.members.end(),
                                  [this](const Member& member) { return world_.odd.contains(member.worker); });
  return is_odd && assignment_.members.size() > 1 && (rank() == 0 || world_.oddness.chance(0.3));
}

Task<WorkerProcess::Reduced> WorkerProcess::disagree() {
  world_.log(id_, [] { return "sees another value than its own"; });
  may_commit_ = false;
  machine_.collective_failed("the ranks disagree", true);
  carry_out();
  const Reduced next = co_await halted();
  co_return next;
}

void WorkerProcess::open_step() {
  step_began_ = world_.queue.now();
  std::vector<std::uint32_t> shares;
  for (const state::WorkerShare& share : next_shares_) shares.push_back(share.samples);
  cut_ = state::cut_step(progress_.sampler, world_.setup.program.samples, shares);
  machine_.step_opened();
  carry_out();
  const Part mine = part_of_step("");
  if (machine_.has_state()) world_.oracle.passes(id_, progress_.committed_step + 1, mine.counted);
}

bool WorkerProcess::part_counts(const state::WorkerShare& share) const {
  return std::any_of(assignment_.members.begin(), assignment_.members.end(), [&](const Member& member) {
    return member.worker == share.worker && !(first_step_ && member.joiner);
  });
}

Part WorkerProcess::part_of_step(std::string what) const {
  Part part;
  part.what = std::move(what);
  part.counted.epoch = cut_.epoch;
  std::uint64_t total = 0;
  std::uint64_t mine = 0;
  for (std::size_t i = 0; i < next_shares_.size(); ++i) {
    if (!part_counts(next_shares_[i])) continue;
    total += cut_.count(i);
    if (next_shares_[i].worker != id_) continue;
    mine = cut_.count(i);
    part.counted.positions = cut_.part(i);
  }
  if (total != 0) part.weight = static_cast<double>(mine) / static_cast<double>(total);
  part.swap_ready = machine_.swap_ready();
  part.wants_stop = orphaned_;
  return part;
}

Task<WorkerProcess::Reduced> WorkerProcess::reduce(std::string what, bool of_step) {
  const bool in = machine_.enter_collective();
  may_commit_ = in && of_step;
  carry_out();
  if (in) {
    Part part;
    if (of_step) {
      part = part_of_step(std::move(what));
    } else {
      part.what = std::move(what);
    }
    std::optional<Sum> sum = co_await collective(std::move(part));
    bool transferred = false;
    if (sum) transferred = co_await finish_transfers();
    if (transferred) {
      if (old_assignment_) world_.plane.close(id_, *std::exchange(old_assignment_, std::nullopt));
      sum_ = std::move(*sum);
      machine_.leave_collective();
      carry_out();
      co_return Reduced::kDone;
    }
    may_commit_ = false;
    co_await end_collective();
    machine_.collective_failed(sum ? "the state did not arrive" : "a peer is gone");
    carry_out();
  }
  const Reduced next = co_await halted();
  co_return next;
}

void WorkerProcess::commit() {
  CommittedStep step;
  step.generation = assignment_.generation;
  step.step = progress_.committed_step + 1;
  step.before = chain_;
  step.counted = {cut_.epoch, sum_.positions};
  step.after = chain_ = chain_after(chain_, step.step, step.counted);
  Intervals uncounted;
  for (std::size_t i = 0; i < next_shares_.size(); ++i) {
    if (part_counts(next_shares_[i])) continue;
    const auto part = cut_.part(i);
    uncounted.insert(uncounted.end(), part.begin(), part.end());
  }
  uncounted = merged(std::move(uncounted));
  audit(step);
  progress_.samples_used += size_of(step.counted.positions);
  progress_.sampler = state::advance(progress_.sampler, world_.setup.program.samples, cut_, uncounted);
  progress_.committed_step = step.step;
  world_.log(id_, [&] {
    return "commits step " + std::to_string(step.step) + " of generation " + std::to_string(step.generation) +
           ", epoch " + std::to_string(step.counted.epoch) + ": " + text_of(step.counted.positions) +
           (uncounted.empty() ? "" : ", back to the pool: " + text_of(uncounted));
  });
  world_.oracle.commits(id_, step);
  may_commit_ = false;
  first_step_ = false;
  remember_shares(assignment_, false);
  ++steps_since_heartbeat_;
  step_time_ = std::chrono::duration_cast<Micros>(world_.queue.now() - step_began_);
  machine_.step_committed(step.step, sum_.all_ready);
  carry_out();
  const std::uint64_t every = world_.setup.program.checkpoint_every;
  if (every != 0 && step.step % every == 0) checkpoint(true);
}

bool WorkerProcess::cross_boundary() {
  if (!sum_.all_ready) {
    if (!sum_.all_stop) return true;
    checkpoint(false);
    return false;
  }
  auto assignment = machine_.take_assignment(true);
  carry_out();
  if (!assignment) {
    world_.violated("agreed_assignment", to_string(id_) + " does not have the assignment that all agreed on");
    return false;
  }
  if (assignment->is_void) {
    remember_shares(assignment->plan, true);
    return true;
  }
  if (assignment->kind == AssignmentKind::kPlanned) {
    take(std::move(*assignment));
    return true;
  }
  if (assignment->kind == AssignmentKind::kStop) checkpoint(false);
  world_.plane.close(id_, assignment_);
  leave(assignment->plan);
  return false;
}

Task<bool> WorkerProcess::finish() {
  world_.on_end_near();
  while (true) {
    const Reduced reduced = co_await reduce("the end", false);
    if (reduced == Reduced::kEnd) co_return false;
    if (reduced == Reduced::kRepeat) continue;
    if (reduced == Reduced::kDone) break;
    const bool back = co_await rejoin();
    if (!back || !used_up()) co_return back;
  }
  checkpoint(false);
  world_.finished = true;
  world_.plane.close(id_, assignment_);
  machine_.finished();
  carry_out();
  co_return false;
}

// ---------------------------------------------------------------------------------------------------------------
// Recovery

Task<WorkerProcess::Reduced> WorkerProcess::halted() {
  std::optional<Assignment> assignment = co_await next_assignment();
  if (!assignment) {
    checkpoint(false);
    co_return Reduced::kEnd;
  }
  switch (assignment->kind) {
    case AssignmentKind::kContinue:
      take(std::move(*assignment));
      co_return Reduced::kRepeat;
    case AssignmentKind::kRejoin:
      take(std::move(*assignment));
      co_return Reduced::kDiscard;
    case AssignmentKind::kStop:
      audit_for_the_lost(assignment->plan.donors);
      world_.oracle.stops(assignment->plan.generation, assignment->plan.resume_step);
      if (assignment->writes_checkpoint) checkpoint(false);
      leave(assignment->plan);
      co_return Reduced::kEnd;
    case AssignmentKind::kLeave:
      leave(assignment->plan);
      co_return Reduced::kEnd;
    case AssignmentKind::kPlanned:
      world_.violated("recovery_assignment", to_string(id_) + " is halted and gets a planned assignment");
      co_return Reduced::kEnd;
    case AssignmentKind::kDismissed:
      co_return Reduced::kEnd;
    case AssignmentKind::kDisagreed:
      if (!world_.supervisor_was_lost && !all_came_together()) {
        world_.violated("the_newest_goes", to_string(id_) + " fails because of a worker that has joined");
      }
      world_.undisturbed = false;
      die(0, SIGKILL);
      co_return Reduced::kEnd;
  }
  co_return Reduced::kEnd;
}

Task<bool> WorkerProcess::rejoin() {
  while (true) {
    const bool came = co_await wait_for_header();
    if (came) co_return true;
    const Reduced next = co_await halted();
    if (next == Reduced::kEnd) co_return false;
    if (next == Reduced::kDiscard) continue;
    // If no other worker has more, the state of this worker is sufficient.
    co_return true;
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Assignments and state

std::uint32_t WorkerProcess::rank() const {
  for (const Member& member : assignment_.members) {
    if (member.worker == id_) return member.rank;
  }
  return ~0U;
}

void WorkerProcess::take(Assignment assignment) {
  world_.oracle.assigned(id_, assignment.plan);
  world_.log(id_, [&] {
    return "takes its assignment in generation " + std::to_string(assignment.plan.generation) +
           (assignment.kind == AssignmentKind::kContinue ? ", goes on"
            : assignment.kind == AssignmentKind::kRejoin ? ", joins again"
                                                         : "") +
           " at step " + std::to_string(progress_.committed_step);
  });
  const bool recovers = assignment.kind == AssignmentKind::kContinue || assignment.kind == AssignmentKind::kRejoin;
  const bool holds = machine_.in_loop() && assignment.kind != AssignmentKind::kRejoin;
  if (recovers) {
    std::vector<WorkerId> keepers;
    for (const Member& member : assignment.plan.members) {
      if (!member.joiner) keepers.push_back(member.worker);
    }
    audit_for_the_lost(keepers);
  } else {
    send_audits();
  }
  if (assignment_.generation != 0 && !recovers && machine_.in_loop()) old_assignment_ = assignment_;
  if (recovers) old_assignment_.reset();
  receiving_.reset();
  sending_ = 0;
  assignment_ = std::move(assignment.plan);
  first_step_ = true;
  if (!holds) return;
  if (recovers) {
    drop_lost_parts(assignment_);
    if (!world_.disk.full) world_.disk.fences.push_back({assignment_.generation, assignment_.resume_step + 1});
  } else {
    remember_shares(assignment_, true);
  }
  world_.oracle.begins(assignment_.generation, progress_.committed_step + 1);
  if (recovers) world_.oracle.writes_fence(assignment_.generation);
  send_state();
  say(WorkerActive{assignment_.generation, progress_.committed_step + 1, 0});
}

void WorkerProcess::remember_shares(const GenerationPlan& plan, bool first_step) {
  next_shares_.clear();
  for (const Member& member : plan.members) {
    next_shares_.push_back({member.worker, first_step && member.joiner ? 0 : member.share});
  }
}

// A worker that must receive the state has no gradient of the open step, now and in any later recovery of the same
// step.
void WorkerProcess::drop_lost_parts(const GenerationPlan& plan) {
  for (state::WorkerShare& share : next_shares_) {
    const bool kept = std::any_of(plan.members.begin(), plan.members.end(), [&](const Member& member) {
      return member.worker == share.worker && !member.joiner;
    });
    if (!kept) share.worker = {};
  }
}

void WorkerProcess::send_state() {
  const auto& donors = assignment_.donors;
  if (std::find(donors.begin(), donors.end(), id_) == donors.end()) return;
  for (const Member& member : assignment_.members) {
    if (!member.joiner) continue;
    ++sending_;
    const Generation generation = assignment_.generation;
    world_.plane.offer_state(id_, member.worker, assignment_, {chain_, progress_, next_shares_},
                             [this, generation, step = progress_.committed_step, life = std::weak_ptr(life_)](bool ok) {
                               if (life.expired()) return;
                               if (ok && progress_.committed_step != step) {
                                 world_.violated("donor_stands_still",
                                                 to_string(id_) + " changes its state while it sends it");
                               }
                               deliver([this, generation] {
                                 if (assignment_.generation == generation && sending_ > 0) --sending_;
                                 poke();
                               });
                             });
  }
}

void WorkerProcess::receive_state() {
  receiving_.emplace();
  receiving_->outstanding = assignment_.donors.size();
  const Generation generation = assignment_.generation;
  for (const WorkerId donor : assignment_.donors) {
    world_.plane.await_state(
        donor, id_, assignment_,
        [this, generation, life = std::weak_ptr(life_)](const Snapshot& header) {
          if (life.expired()) return;
          deliver([this, generation, header] {
            if (assignment_.generation != generation || !receiving_) return;
            if (receiving_->header && receiving_->header->chain != header.chain) {
              world_.violated("bit_identity", "the donors of " + to_string(id_) + " hold different states");
            }
            receiving_->header = header;
            poke();
          });
        },
        [this, generation, life = std::weak_ptr(life_)](bool ok) {
          if (life.expired()) return;
          deliver([this, generation, ok] {
            if (assignment_.generation != generation || !receiving_) return;
            --receiving_->outstanding;
            receiving_->failed = receiving_->failed || !ok;
            poke();
          });
        });
  }
}

// False if it does not arrive or no longer counts; the wait for an assignment starts again.
Task<bool> WorkerProcess::wait_for_header() {
  receive_state();
  while (!receiving_->header) {
    const bool is_void = machine_.generation() != assignment_.generation || machine_.assignment_is_void();
    if (receiving_->failed || is_void || orphaned_) {
      receiving_.reset();
      if (!is_void) machine_.collective_failed("the workers that were to hand over the state ended before they did");
      carry_out();
      co_return false;
    }
    co_await poked();
  }
  take_header(*receiving_->header);
  const bool in = machine_.enter_loop(progress_.committed_step, false);
  carry_out();
  if (!in) receiving_.reset();
  co_return in;
}

void WorkerProcess::take_header(const Snapshot& header) {
  chain_ = header.chain;
  progress_ = header.progress;
  next_shares_ = header.next_shares;
  first_step_ = true;
}

Task<bool> WorkerProcess::finish_transfers() {
  while (sending_ > 0) co_await poked();
  if (!receiving_) co_return true;
  while (receiving_->outstanding > 0 && !receiving_->failed) co_await poked();
  const bool complete = !receiving_->failed;
  receiving_.reset();
  if (!complete) co_return false;
  world_.oracle.receives_state(id_, assignment_, progress_.committed_step, chain_);
  machine_.state_complete();
  received_ = Received{assignment_.generation, progress_};
  carry_out();
  say(WorkerActive{assignment_.generation, progress_.committed_step + 1, 1'000});
  co_return true;
}

void WorkerProcess::leave(const GenerationPlan& plan) {
  send_audits();
  say(WorkerLeft{plan.generation, progress_.committed_step});
}

}  // namespace elastictrain::simulation
