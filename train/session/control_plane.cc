#include "train/session/control_plane.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/names.h"
#include "train/comm/mpi/mpi_communicator.h"
#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_trial.h"
#include "train/session/communicator_builder.h"
#include "train/session/session_communicators.h"

namespace elastictrain::session {
namespace {

constexpr std::chrono::milliseconds kDefaultTimeLimit{30'000};
constexpr std::chrono::milliseconds kTrialLimit{60'000};

// Several hundred descriptors and about a hundred streams. Workers reach it one after the other, so that each of them
// is replaced while others train.
constexpr int kAbandonedBuilds = 48;
constexpr std::uint64_t kApart = 16;
// An end that takes longer does not come any more; what its communicator holds is free again in a new process.
constexpr std::chrono::minutes kLeftForGood{2};
constexpr std::chrono::seconds kLeftApart{15};

constexpr std::chrono::milliseconds kEpochAnswerLimit{5'000};
constexpr std::chrono::milliseconds kEpochPeriod{100};  // of questions; members report theirs less often

// MPI sends a rank's messages only while that rank calls it, and a parked process makes no other call.
constexpr std::chrono::milliseconds kMpiPeriod{20};

bool contains(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Status check_plan(const protocol::GenerationPlan& plan) {
  const auto works = [](const protocol::Member& member) { return member.share != 0; };
  if (std::none_of(plan.members.begin(), plan.members.end(), works)) {
    return Error{ErrorCode::kInvalid, "the plan gives no member any samples"};
  }
  if (donor_ranks(plan).size() != plan.donors.size()) {
    return Error{ErrorCode::kInvalid, "the plan names a donor that is not a member"};
  }
  return {};
}

protocol::WorkerHello hello_of(WorkerId worker) {
  return {limits::kProtocolVersion, worker, getpid(), ELASTICTRAIN_VERSION};
}

// The members' ranks of the MPI launch: all of them if this worker has one, otherwise none.
Result<std::vector<std::uint32_t>> mpi_ranks(const protocol::GenerationPlan& plan, bool uses_mpi) {
  std::vector<std::uint32_t> ranks;
  for (const auto& member : plan.members) {
    const auto rank = member.endpoint.mpi_rank;
    if ((rank >= 0) != uses_mpi) {
      return Error{
          ErrorCode::kInvalid,
          "worker " + std::to_string(member.worker.value) + (uses_mpi ? " is no" : " is a") +
              " rank of an MPI launch, unlike this one; all workers of a run need the same ELASTICTRAIN_BACKEND"};
    }
    if (uses_mpi) ranks.push_back(static_cast<std::uint32_t>(rank));
  }
  return ranks;
}

}  // namespace

std::optional<std::uint32_t> rank_in(const protocol::GenerationPlan& plan, WorkerId worker) {
  for (std::uint32_t rank = 0; rank < plan.members.size(); ++rank) {
    if (plan.members[rank].worker == worker) return rank;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> donor_ranks(const protocol::GenerationPlan& plan) {
  std::vector<std::uint32_t> ranks;
  for (const WorkerId donor : plan.donors) {
    if (const auto rank = rank_in(plan, donor)) ranks.push_back(*rank);
  }
  return ranks;
}

std::vector<std::uint32_t> joiner_ranks(const protocol::GenerationPlan& plan) {
  std::vector<std::uint32_t> ranks;
  if (plan.donors.empty()) return ranks;
  for (std::uint32_t rank = 0; rank < plan.members.size(); ++rank) {
    if (plan.members[rank].joiner) ranks.push_back(rank);
  }
  return ranks;
}

std::chrono::milliseconds time_limit(const protocol::GenerationPlan& plan) {
  return plan.build_deadline_ms == 0 ? kDefaultTimeLimit : std::chrono::milliseconds(plan.build_deadline_ms);
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::open(const Environment& environment) {
  std::unique_ptr<ControlPlane> plane(new ControlPlane(environment));
  LinkOptions options{.socket_path = environment.socket_path,
                      .hello = hello_of(environment.worker),
                      .heartbeat = environment.heartbeat,
                      .orphan_grace = environment.orphan_grace};
  LinkHandlers handlers;
  handlers.on_message = [self = plane.get()](const protocol::WorkerDown& message) { self->hear(message); };
  handlers.on_heartbeat = [self = plane.get()] {
    if (auto* mpi = self->mpi_.load()) mpi->progress();
    self->board_.tend(SteadyClock::now());
    return self->with_news(self->on_heartbeat_());
  };
  handlers.on_orphaned = [self = plane.get()] {
    self->orphaned_.store(true);
    self->wake();
  };
  auto link = AgentLink::connect(std::move(options), std::move(handlers));
  if (!link) return link.error();
  plane->link_ = std::move(*link);
  plane->term_.emplace(plane->link_->agent(), environment.usr1_is_notice);
  return plane;
}

void ControlPlane::start(std::function<std::vector<protocol::WorkerToAgent>()> on_heartbeat) {
  on_heartbeat_ = std::move(on_heartbeat);
  link_->start();
}

ControlPlane::ControlPlane(const Environment& environment)
    : environment_(environment),
      machine_(environment.worker),
      builder_(std::make_unique<CommunicatorBuilder>(
          [this](const auto& plan, std::uint32_t rank, const auto& cancel) { return build(plan, rank, cancel); },
          [this](Generation generation, const Status& status) { built(generation, status); })) {}

ControlPlane::~ControlPlane() {
  // The control thread uses the builder, and the builder uses the link: end the threads first, then the objects.
  if (link_) link_->close(std::chrono::milliseconds(0));
  builder_.reset();
}

void ControlPlane::close(std::chrono::milliseconds flush_time) {
  board_.close();
  link_->close(flush_time);
  const std::lock_guard lock(mutex_);
  current_.reset();
}

// NCCL may be installed and not work: built for a newer driver, for example.
void ControlPlane::try_device() {
  const bool may_use_nccl = environment_.backend == Backend::kAuto || environment_.backend == Backend::kNccl;
  if (!may_use_nccl || !comm::NcclLibrary::get()) return;
  nccl_works_ = comm::try_nccl(device_, comm::unique_id_command(), kTrialLimit);
  if (!nccl_works_) send(protocol::WorkerNote{"nccl", "device memory is staged: " + nccl_works_.error().message});
}

Status ControlPlane::announce(protocol::WorkerReady ready) {
  if (device_) try_device();
  introduce_successor();
  if (!listener_) {
    auto listener =
        comm::DataListener::open({.host_key = environment_.host_key, .addresses = environment_.bind_addresses});
    if (!listener) return listener.error();
    listener_ = std::move(*listener);
  }
  ready.endpoint = listener_->endpoint();
  if (environment_.backend == Backend::kMpi) {
    const auto world = comm::MpiWorld::join(environment_.mpi_init_timeout);
    if (!world) return world.error();
    mpi_ = *world;
    ready.endpoint.mpi_rank = (*world)->rank();
  }
  send(ready);
  return {};
}

std::optional<WorkerId> ControlPlane::park(Step last_step) {
  {
    const std::lock_guard lock(mutex_);
    builder_->retire(std::move(current_));
    current_members_.clear();
    current_cancel_.reset();
    parking_ = Parking::kParked;
  }
  pace_->pauses();
  link_->fall_silent(protocol::WorkerParked{last_step});
  std::unique_lock lock(mutex_);
  wait_parked(lock);
  if (parking_ != Parking::kReassigned) return std::nullopt;
  return successor_;
}

void ControlPlane::introduce_successor() {
  {
    const std::lock_guard lock(mutex_);
    if (parking_ != Parking::kReassigned) return;
    parking_ = Parking::kNot;
  }
  link_->introduce(hello_of(successor_));
}

void ControlPlane::wait_parked(std::unique_lock<std::mutex>& lock) {
  while (parking_ == Parking::kParked && !orphaned()) {
    if (auto* mpi = mpi_.load()) {
      changed_.wait_for(lock, kMpiPeriod);
      mpi->progress();
    } else {
      changed_.wait(lock);
    }
  }
}

Status ControlPlane::leave_mpi() {
  auto* mpi = mpi_.load();
  return mpi == nullptr ? Status() : mpi->leave(environment_.mpi_finalize_timeout);
}

void ControlPlane::wake() {
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

template <class Change>
auto ControlPlane::drive(Change change) {
  const std::lock_guard lock(mutex_);
  struct Follow {
    ControlPlane& plane;
    ~Follow() { plane.carry_out(); }
  } const follow{*this};
  return change(machine_);
}

void ControlPlane::carry_out() {
  if (machine_.place() != place_) {
    place_ = machine_.place();
    place_since_ = SteadyClock::now();
  }
  for (auto& effect : machine_.take_effects()) {
    if (auto* start = std::get_if<WorkerMachine::StartBuild>(&effect)) {
      builder_->start(std::move(start->plan), start->rank);
    } else if (const auto* dropped = std::get_if<WorkerMachine::DropBuild>(&effect)) {
      builder_->drop(dropped->generation);
    } else if (const auto* say = std::get_if<WorkerMachine::Say>(&effect)) {
      link_->send(say->message);
    } else if (std::holds_alternative<WorkerMachine::AbortAssignment>(effect)) {
      if (current_) current_->abort();
      if (current_cancel_) current_cancel_->cancel();
      changed_.notify_all();
    } else {
      changed_.notify_all();
    }
  }
}

void ControlPlane::hear_epoch(const protocol::RunEpoch& run) {
  {
    const std::lock_guard lock(mutex_);
    run_epoch_ = std::max(run_epoch_, run.epoch);
    ++epoch_answers_;
  }
  changed_.notify_all();
}

std::uint64_t ControlPlane::ask_epoch(std::uint64_t epoch) {
  std::unique_lock lock(mutex_);
  if (run_epoch_ > epoch) return run_epoch_;
  link_->send(protocol::WorkerAsksEpoch{});
  const auto answers = epoch_answers_;
  changed_.wait_for(lock, kEpochAnswerLimit, [&] { return epoch_answers_ != answers || orphaned(); });
  return std::max(run_epoch_, epoch);
}

std::uint64_t ControlPlane::await_first_assignment(std::uint64_t epoch) {
  std::unique_lock lock(mutex_);
  while (run_epoch_ <= epoch && !machine_.start_is_decided() && !orphaned()) {
    link_->send(protocol::WorkerAsksEpoch{});
    changed_.wait_for(lock, kEpochPeriod);
  }
  return machine_.start_is_decided() ? epoch : std::max(run_epoch_, epoch);
}

void ControlPlane::hear(const protocol::WorkerDown& message) {
  if (const auto* run = std::get_if<protocol::RunEpoch>(&message)) return hear_epoch(*run);
  if (const auto* answer = std::get_if<protocol::BoardAnswer>(&message)) return board_.hear(*answer);
  if (std::holds_alternative<protocol::Orphaned>(message)) orphaned_.store(true);
  drive([&](WorkerMachine& machine) {
    if (parking_ == Parking::kParked) return hear_parked(message);
    machine.hear(message);
  });
  changed_.notify_all();
}

// The next worker's machine is there before another message can arrive for it.
void ControlPlane::hear_parked(const protocol::WorkerDown& message) {
  if (const auto* reassigned = std::get_if<protocol::Reassigned>(&message)) {
    parking_ = Parking::kReassigned;
    successor_ = reassigned->worker;
    machine_ = WorkerMachine(successor_);
  } else if (std::holds_alternative<protocol::Dismiss>(message)) {
    parking_ = Parking::kDismissed;
  }
}

void ControlPlane::built(Generation generation, const Status& status) {
  drive([&](WorkerMachine& machine) {
    if (status)
      machine.built(generation);
    else
      machine.build_failed(generation, status.error().message);
  });
}

std::string ControlPlane::why_a_new_process() const {
  const auto turn = environment_.worker.value % kApart;
  const int abandoned = comm::abandoned_nccl_builds();
  if (abandoned >= kAbandonedBuilds + static_cast<int>(turn)) {
    return "NCCL holds what " + std::to_string(abandoned) + " abandoned builds have left: a new process is needed";
  }
  const auto left = comm::longest_left_nccl_end();
  if (left >= kLeftForGood + turn * kLeftApart) {
    return "NCCL has not ended a communicator in " + protocol::duration_text(left) + ": a new process is needed";
  }
  return "";
}

std::vector<protocol::WorkerToAgent> ControlPlane::with_news(std::vector<protocol::WorkerToAgent> messages) {
  if (const auto sender = term_->take()) {
    messages.emplace_back(
        protocol::WorkerNote{std::string(protocol::kTermNote), "from process " + std::to_string(*sender)});
  }
  if (const auto why = why_a_new_process(); !why.empty() && !std::exchange(asked_to_go_, true)) {
    messages.emplace_back(protocol::WorkerNote{std::string(protocol::kTermNote), why});
  }
  if (const auto held = comm::nccl_end_that_holds_the_device()) {
    drive([&](WorkerMachine& machine) { machine.device_is_held(*held); });
  }
  const std::lock_guard lock(mutex_);
  const auto there = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - place_since_);
  for (auto& message : messages) {
    auto* heartbeat = std::get_if<protocol::WorkerHeartbeat>(&message);
    if (heartbeat == nullptr) continue;
    heartbeat->place = place_;
    heartbeat->phase = phase_;
    heartbeat->place_ms = static_cast<std::uint64_t>(there.count());
  }
  return messages;
}

// Runs under the lock in which the assignment became the current one, so that an Abort always finds its communicator.
TakenAssignment ControlPlane::assign_with_build(WorkerMachine::NextAssignment next) {
  TakenAssignment taken{std::move(next), nullptr, {}, nullptr};
  if (!taken.rank || taken.is_void) return taken;
  auto built = builder_->take(taken.plan.generation);
  ET_CHECK(built, "an assignment that is taken is built");
  taken.communicator = std::move(built->communicator);
  taken.state_sockets = std::move(built->state_sockets);
  taken.cancel = std::make_shared<comm::CancelToken>();
  current_ = taken.communicator;
  current_members_.clear();
  for (const auto& member : taken.plan.members) current_members_.push_back(member.worker);
  current_cancel_ = taken.cancel;
  return taken;
}

std::optional<TakenAssignment> ControlPlane::wait_assignment() {
  std::unique_lock lock(mutex_);
  while (true) {
    auto next = machine_.take_assignment(false);
    carry_out();
    if (next) return assign_with_build(std::move(*next));
    if (orphaned()) return std::nullopt;
    changed_.wait(lock);
  }
}

std::optional<TakenAssignment> ControlPlane::take_agreed_assignment() {
  const std::lock_guard lock(mutex_);
  auto next = machine_.take_assignment(true);
  carry_out();
  if (!next) return std::nullopt;
  return assign_with_build(std::move(*next));
}

bool ControlPlane::wait_on_assignment(const std::function<bool()>& arrived) {
  std::unique_lock lock(mutex_);
  while (!arrived()) {
    const bool void_assignment = machine_.generation() == 0 || machine_.assignment_is_void();
    if (void_assignment || orphaned() || (machine_.dismissed() && !machine_.in_loop())) return false;
    changed_.wait(lock);
  }
  return true;
}

bool ControlPlane::enter_loop(Step step, bool complete) {
  return drive([&](WorkerMachine& machine) { return machine.enter_loop(step, complete); });
}
void ControlPlane::state_complete() {
  drive([](WorkerMachine& machine) { machine.state_complete(); });
}
void ControlPlane::step_opened() {
  drive([this](WorkerMachine& machine) {
    machine.step_opened();
    place_since_ = SteadyClock::now();  // another batch of the same step is progress
  });
}
void ControlPlane::batch_done() {
  pace_->step_done(SteadyClock::now());
}
bool ControlPlane::waits_for_meeting() const {
  const std::lock_guard lock(mutex_);
  return orphaned() || machine_.swap_ready() || machine_.assignment_is_void();
}
bool ControlPlane::enter_collective() {
  return drive([](WorkerMachine& machine) { return machine.enter_collective(); });
}
void ControlPlane::leave_collective() {
  drive([](WorkerMachine& machine) { machine.leave_collective(); });
}
void ControlPlane::collective_failed(const std::string& reason, bool disagrees) {
  drive([&](WorkerMachine& machine) { machine.collective_failed(reason, disagrees); });
}
void ControlPlane::step_committed(Step step, bool everyone_ready) {
  pace_->step_done(SteadyClock::now());
  drive([&](WorkerMachine& machine) { machine.step_committed(step, everyone_ready); });
}
void ControlPlane::step_discarded() {
  drive([](WorkerMachine& machine) { machine.step_discarded(); });
}
void ControlPlane::checkpoint_begins() {
  drive([](WorkerMachine& machine) { machine.checkpoint_begins(); });
}
void ControlPlane::checkpoint_ends() {
  drive([](WorkerMachine& machine) { machine.checkpoint_ends(); });
}
void ControlPlane::finished() {
  drive([](WorkerMachine& machine) { machine.finished(); });
}
bool ControlPlane::swap_ready() const {
  const std::lock_guard lock(mutex_);
  return machine_.swap_ready();
}
bool ControlPlane::ready_to_stop() const {
  const std::lock_guard lock(mutex_);
  const auto* plan = machine_.ready_plan();
  return plan != nullptr && plan->members.empty();
}
std::optional<protocol::GenerationPlan> ControlPlane::ready_plan() const {
  const std::lock_guard lock(mutex_);
  const auto* plan = machine_.ready_plan();
  return plan == nullptr ? std::nullopt : std::optional(*plan);
}
bool ControlPlane::has_state() const {
  const std::lock_guard lock(mutex_);
  return machine_.has_state();
}
void ControlPlane::enter_phase(protocol::ProgramPhase phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  place_since_ = SteadyClock::now();
  pace_->phase_is_long(phase != protocol::ProgramPhase::kNone);
}

Result<comm::BuildResult> ControlPlane::build(const protocol::GenerationPlan& plan, std::uint32_t rank,
                                              const comm::CancelToken& cancel) {
  if (auto status = check_plan(plan); !status) return status.error();
  if (plan.members.size() == 1) {
    comm::BuildResult alone;
    alone.communicator = std::make_unique<SoloCommunicator>(plan.generation);
    return with_device(std::move(alone), plan, cancel);
  }
  if (!listener_) return Error{ErrorCode::kInvalid, "this worker is not ready yet"};
  comm::BuildSpec spec{.generation = plan.generation,
                       .token = plan.token,
                       .rank = rank,
                       .transport = environment_.transport,
                       .encryption = environment_.encryption,
                       .algorithm = environment_.algorithm,
                       .topology = plan.topology,
                       .parents = plan.parents,
                       .deadline = std::chrono::steady_clock::now() + time_limit(plan),
                       .processors = environment_.processors};
  for (const auto& member : plan.members) spec.peers.push_back(member.endpoint);
  auto built = build_data_plane(spec, plan, cancel);
  return built ? with_device(std::move(*built), plan, cancel) : std::move(built);
}

Result<comm::BuildResult> ControlPlane::build_data_plane(const comm::BuildSpec& spec,
                                                         const protocol::GenerationPlan& plan,
                                                         const comm::CancelToken& cancel) {
  const auto donors = donor_ranks(plan);
  const auto joiners = joiner_ranks(plan);
  std::vector<std::uint32_t> from;
  std::vector<std::uint32_t> to;
  if (contains(joiners, spec.rank)) from = donors;
  if (contains(donors, spec.rank)) to = joiners;
  auto* const mpi = mpi_.load();
  auto ranks = mpi_ranks(plan, mpi != nullptr);
  if (!ranks) return ranks.error();
  if (mpi == nullptr) return comm::build_cpu_communicator(spec, *listener_, cancel, from, to);
  // A rank that was not a member of the broken generation learns here that another rank may be lost.
  if (plan.fence != 0) mpi->notify_broken(plan.previous, {});
  return comm::build_mpi_communicator(spec, *mpi, std::move(*ranks), *listener_, cancel, from, to);
}

comm::RunningGeneration ControlPlane::running_before(const protocol::GenerationPlan& plan) const {
  const std::lock_guard lock(mutex_);
  return {current_, ranks_left_out(current_members_, plan)};
}

// The others keep their NCCL; a later try may find another device.
void ControlPlane::decline(const std::string& why) {
  const std::string here = nccl_works_ ? "" : ": " + nccl_works_.error().message;
  send(protocol::WorkerDeclines{why + here});
}

Result<comm::BuildResult> ControlPlane::with_device(comm::BuildResult built, const protocol::GenerationPlan& plan,
                                                    const comm::CancelToken& cancel) {
  if (!device_) return built;
  DeviceBuild build{
      .device = device_,
      .job = environment_.job_id,
      .deadline = std::chrono::steady_clock::now() + time_limit(plan),
      .backend = environment_.backend,
      .nccl_works = nccl_works_.ok(),
      .nccl_build = environment_.nccl_build,
      .exchanges_narrow = environment_.exchanges_narrow && pays_to_exchange_narrow(plan),
      .newcomers = plan.kind == protocol::ChangeKind::kRecover ? std::vector<std::uint32_t>() : joiner_ranks(plan),
      .on_refused = [this](const std::string& why) { decline(why); },
      .make_room = make_room_,
      .running = running_before(plan),
      .step_clock = [pace = pace_] { return pace->clock(); },
      .on_broken = on_broken_};
  auto reached = reach_device(std::move(built.communicator), std::move(build), cancel);
  if (!reached) return reached.error();
  built.communicator = std::move(*reached);
  return built;
}

}  // namespace elastictrain::session
