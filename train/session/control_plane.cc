#include "train/session/control_plane.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "supervisor/protocol/limits.h"
#include "train/session/solo_communicator.h"

namespace elastictrain::session {
namespace {

constexpr std::chrono::milliseconds kDefaultTimeLimit{30'000};

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

}  // namespace

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

Result<std::unique_ptr<ControlPlane>> ControlPlane::open(
    const Environment& environment, std::function<std::vector<protocol::WorkerUp>()> on_heartbeat) {
  std::unique_ptr<ControlPlane> plane(new ControlPlane(environment));
  LinkOptions options{.socket_path = environment.socket_path,
                      .hello = {limits::kProtocolVersion, environment.worker, getpid(), ELASTICTRAIN_VERSION},
                      .heartbeat = environment.heartbeat,
                      .orphan_grace = environment.orphan_grace};
  LinkHandlers handlers;
  handlers.on_message = [self = plane.get()](protocol::WorkerDown message) { self->hear(std::move(message)); };
  handlers.on_heartbeat = std::move(on_heartbeat);
  handlers.on_orphaned = [self = plane.get()] {
    self->orphaned_.store(true);
    self->notify();
  };
  auto link = AgentLink::connect(std::move(options), std::move(handlers));
  if (!link) return link.error();
  plane->link_ = std::move(*link);
  plane->link_->start();
  return plane;
}

ControlPlane::ControlPlane(const Environment& environment)
    : environment_(environment),
      slot_(std::make_unique<SwapSlot>(
          environment.worker,
          [this](const auto& plan, std::uint32_t rank, const auto& cancel) { return build(plan, rank, cancel); },
          [this](const protocol::WorkerUp& message) {
            link_->send(message);
            notify();
          })) {}

ControlPlane::~ControlPlane() {
  // The control thread uses the slot and the builder uses the link: end the threads first, then the objects.
  if (link_) link_->close(std::chrono::milliseconds(0));
  slot_.reset();
}

Status ControlPlane::announce(protocol::WorkerReady ready) {
  auto listener =
      comm::DataListener::open({.host_key = environment_.host_key, .addresses = environment_.bind_addresses});
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  ready.endpoint = listener_->endpoint();
  send(ready);
  return {};
}

void ControlPlane::notify() {
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

void ControlPlane::hear(protocol::WorkerDown message) {
  if (auto* prepare = std::get_if<protocol::Prepare>(&message)) {
    slot_->prepare(std::move(prepare->plan));
  } else if (const auto* commit = std::get_if<protocol::Commit>(&message)) {
    slot_->commit(commit->generation);
  } else if (const auto* cancel = std::get_if<protocol::Cancel>(&message)) {
    slot_->cancel(cancel->generation);
  } else if (std::holds_alternative<protocol::Orphaned>(message)) {
    orphaned_.store(true);
  } else {
    dismissed_.store(true);
  }
  notify();
}

ControlPlane::Wake ControlPlane::wait_for_seat(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  Wake wake = Wake::kNothing;
  changed_.wait_for(lock, patience, [&] {
    if (slot_->ready(0))
      wake = Wake::kSeat;
    else if (dismissed())
      wake = Wake::kDismissed;
    else if (orphaned())
      wake = Wake::kOrphaned;
    return wake != Wake::kNothing;
  });
  return wake;
}

Result<comm::BuildResult> ControlPlane::build(const protocol::GenerationPlan& plan, std::uint32_t rank,
                                              const comm::CancelToken& cancel) {
  if (auto status = check_plan(plan); !status) return status.error();
  if (plan.members.size() == 1) {
    comm::BuildResult alone;
    alone.communicator = std::make_unique<SoloCommunicator>(plan.generation);
    return alone;
  }
  if (!listener_) return Error{ErrorCode::kInvalid, "this worker is not ready yet"};
  comm::BuildSpec spec{.generation = plan.generation,
                       .token = plan.token,
                       .rank = rank,
                       .transport = environment_.transport,
                       .algorithm = environment_.algorithm,
                       .deadline = std::chrono::steady_clock::now() + time_limit(plan)};
  for (const auto& member : plan.members) spec.peers.push_back(member.endpoint);
  const auto donors = donor_ranks(plan);
  const auto joiners = joiner_ranks(plan);
  std::vector<std::uint32_t> from;
  std::vector<std::uint32_t> to;
  if (contains(joiners, rank)) from = donors;
  if (contains(donors, rank)) to = joiners;
  return comm::build_cpu_communicator(spec, *listener_, cancel, from, to);
}

}  // namespace elastictrain::session
