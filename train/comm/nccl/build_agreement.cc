#include "train/comm/nccl/build_agreement.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace elastictrain::comm {
namespace {

constexpr std::chrono::microseconds kLook{500};

BuildState look_for_a_round(std::chrono::milliseconds round, const std::function<BuildState()>& look) {
  const auto until = std::chrono::steady_clock::now() + round;
  BuildState state = look();
  while (state == BuildState::kBuilding && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
    state = look();
  }
  return state;
}

}  // namespace

Result<BuildState> build_in_rounds(Communicator& host_plane, std::chrono::milliseconds round,
                                   const std::function<BuildState()>& look) {
  BuildState mine = BuildState::kBuilding;
  std::vector<BuildState> all(host_plane.world_size());
  for (;;) {
    // A rank that has finished leaves the cores to the others.
    if (mine == BuildState::kBuilt) std::this_thread::sleep_for(round);
    if (mine == BuildState::kBuilding) mine = look_for_a_round(round, look);
    auto reported = host_plane.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    if (!reported) return reported.error();
    const auto count = [&](BuildState state) { return std::count(all.begin(), all.end(), state); };
    if (count(BuildState::kFailed) > 0) return BuildState::kFailed;
    if (count(BuildState::kStalled) > 0) return BuildState::kStalled;
    if (count(BuildState::kBuilt) == std::ssize(all)) return BuildState::kBuilt;
  }
}

namespace {

constexpr std::chrono::milliseconds kWatchInterval{2};

}  // namespace

BuildGuard::BuildGuard(Communicator& host_plane, const CancelToken& cancel, Deadline deadline)
    : host_plane_(host_plane), deadline_(deadline), thread_([this, &cancel] { watch(cancel); }) {}

BuildGuard::~BuildGuard() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BuildGuard::watch(const CancelToken& cancel) {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const bool late = std::chrono::steady_clock::now() > deadline_;
    if (late || cancel.cancelled()) {
      fired_ = late;
      return host_plane_.abort();
    }
    changed_.wait_for(lock, kWatchInterval);
  }
}

namespace {

constexpr std::uint32_t kRanksPerId = 128;

// Sent by every rank before there are ids.
struct Proposal {
  std::uint64_t parent_generation = 0;
  std::uint32_t parenthood = 0;
  std::uint16_t at_swap = 0;
  std::uint16_t takes_several = 0;
};

// Sent by rank 0 before the ids.
struct Header {
  std::uint32_t ok = 0;
  char problem[508] = {};
};

Result<Proposal> agree_on_build(Communicator& host_plane, const NcclOptions& options, const Parent& parent) {
  const auto nccl = NcclLibrary::get();
  const Proposal mine{parent.generation, static_cast<std::uint32_t>(parent.parenthood),
                      static_cast<std::uint16_t>(options.build == NcclBuild::kAtSwap),
                      static_cast<std::uint16_t>(nccl.ok() && (*nccl)->init_scalable != nullptr)};
  std::vector<Proposal> all(host_plane.world_size());
  auto gathered = host_plane.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  if (!gathered) return gathered.error();
  Proposal agreed = mine;
  for (const Proposal& proposal : all) {
    agreed.at_swap = std::max(agreed.at_swap, proposal.at_swap);
    agreed.takes_several = std::min(agreed.takes_several, proposal.takes_several);
    const bool same = proposal.parenthood == mine.parenthood && proposal.parent_generation == mine.parent_generation;
    if (!same) agreed.parenthood = 0;
  }
  return agreed;
}

Header header_of(const Result<UniqueIdHelper>& helper) {
  Header header;
  header.ok = helper.ok() ? 1 : 0;
  if (!helper) std::strncpy(header.problem, helper.error().message.c_str(), sizeof header.problem - 1);
  return header;
}

}  // namespace

std::size_t ids_for(std::uint32_t ranks, std::uint32_t several_from, bool takes_several) {
  if (!takes_several || ranks < several_from) return 1;
  return std::max<std::size_t>(2, (ranks + kRanksPerId - 1) / kRanksPerId);
}

Result<AgreedIds> agree_on_ids(Communicator& host_plane, const NcclOptions& options, const Parent& parent,
                               const CancelToken& cancel) {
  const auto proposal = agree_on_build(host_plane, options, parent);
  if (!proposal) return proposal.error();
  AgreedIds agreed;
  agreed.build = proposal->at_swap != 0 ? NcclBuild::kAtSwap : NcclBuild::kBackground;
  agreed.parenthood = static_cast<NcclComm::Parenthood>(proposal->parenthood);
  const std::size_t count = ids_for(host_plane.world_size(), options.several_ids_from, proposal->takes_several != 0);
  std::vector<std::byte> message(sizeof(Header) + count * sizeof(NcclUniqueId));
  if (host_plane.rank() == 0) {
    auto helper = UniqueIdHelper::start(options.id_helper, count, cancel, options.deadline);
    const Header header = header_of(helper);
    std::memcpy(message.data(), &header, sizeof header);
    if (helper) {
      std::memcpy(message.data() + sizeof header, helper->ids().data(), count * sizeof(NcclUniqueId));
      agreed.helper = std::move(*helper);
    }
  }
  if (auto shared = host_plane.broadcast(message, 0); !shared) return shared.error();
  Header header;
  std::memcpy(&header, message.data(), sizeof header);
  header.problem[sizeof header.problem - 1] = '\0';
  if (header.ok == 0) return Error{ErrorCode::kUnavailable, std::string("rank 0 has no unique id: ") + header.problem};
  agreed.ids.resize(count);
  std::memcpy(agreed.ids.data(), message.data() + sizeof header, count * sizeof(NcclUniqueId));
  return agreed;
}

}  // namespace elastictrain::comm
