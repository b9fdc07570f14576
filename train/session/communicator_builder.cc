#include "train/session/communicator_builder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/comm/nccl/build_agreement.h"
#include "train/comm/nccl/nccl_library.h"
#include "train/device/kernel_module.h"
#include "train/session/process_signals.h"
#include "train/session/session_communicators.h"

namespace elastictrain::session {
namespace {

constexpr std::size_t kMostOfHostToExchange = 2;  // ranks, where there are several hosts

// What all members have or want. A member without it would make other calls than the rest.
struct Agreed {
  bool nccl = false;
  bool exchanges_narrow = false;
};

constexpr std::byte kNccl{1};
constexpr std::byte kExchanges{2};
constexpr std::byte kIsFull{4};  // an older worker does not know it

std::vector<std::uint32_t> ranks_that(bool have, std::byte what, const std::vector<std::byte>& all) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    if (((all[rank] & what) != std::byte{0}) == have) ranks.push_back(rank);
  }
  return ranks;
}

std::string text_of(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (const auto rank : ranks) text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return text;
}

bool is_among(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

// Those who sum over NCCL do not fall back to host memory because of a newcomer.
std::optional<Error> refuse_newcomers(const comm::Communicator& host, const DeviceBuild& build,
                                      const std::vector<std::byte>& all) {
  const auto refused = ranks_that(false, kNccl, all);
  const auto is_new = [&](std::uint32_t rank) { return is_among(build.newcomers, rank); };
  if (refused.empty() || !std::ranges::all_of(refused, is_new)) return std::nullopt;
  const std::string why = "NCCL does not work on " + text_of(refused) + ", and the others sum over it";
  if (is_among(refused, host.rank()) && build.on_refused) build.on_refused(why);
  return Error{ErrorCode::kUnavailable, why};
}

// A step without them could not be repeated after a loss.
std::optional<Error> refuse_without_room(const comm::Communicator& host, const DeviceBuild& build,
                                         const std::vector<std::byte>& all, const Status& room) {
  const auto full = ranks_that(true, kIsFull, all);
  if (full.empty()) return std::nullopt;
  const std::string why = room ? "no room for copies of the gradients on the device of " + text_of(full)
                               : "rank " + std::to_string(host.rank()) + ": " + room.error().message;
  if (!room && is_among(build.newcomers, host.rank()) && build.on_refused) build.on_refused(why);
  return Error{ErrorCode::kUnavailable, why};
}

Result<Agreed> agree(comm::Communicator& host, const DeviceBuild& build, const comm::CancelToken& cancel) {
  const comm::BuildGuard guard(host, cancel, build.deadline);
  std::byte mine{0};
  if (build.nccl_works && comm::NcclLibrary::get().ok()) mine |= kNccl;
  if (build.exchanges_narrow) mine |= kExchanges;
  const Status room = build.make_room ? build.make_room() : Status();
  if (!room) mine |= kIsFull;
  std::vector<std::byte> all(host.world_size());
  if (auto status = host.all_gather({&mine, 1}, all); !status) return status.error();
  if (auto refused = refuse_without_room(host, build, all, room)) return std::move(*refused);
  if (auto refused = refuse_newcomers(host, build, all)) return std::move(*refused);
  std::byte common{kNccl | kExchanges};
  for (const std::byte one : all) common &= one;
  return Agreed{(common & kNccl) != std::byte{0}, (common & kExchanges) != std::byte{0}};
}

// A worker alone needs no NCCL, only kernels: what is measured of its gradient stays on the device.
bool sums_alone(const comm::Communicator& host, const DeviceBuild& build) {
  return host.world_size() == 1 && device::KernelModule::get(build.device, device::kCommunicatorKernels).ok();
}

}  // namespace

std::vector<std::uint32_t> ranks_left_out(const std::vector<WorkerId>& before, const protocol::GenerationPlan& plan) {
  std::vector<std::uint32_t> left_out;
  std::size_t next = 0;
  for (std::uint32_t rank = 0; rank < before.size(); ++rank) {
    const bool stays = next < plan.members.size() && plan.members[next].worker == before[rank];
    if (stays)
      ++next;
    else
      left_out.push_back(rank);
  }
  return next == plan.members.size() ? left_out : std::vector<std::uint32_t>();
}

bool pays_to_exchange_narrow(const protocol::GenerationPlan& plan) {
  std::map<std::string, std::size_t> ranks_of;
  for (const auto& member : plan.members) ++ranks_of[member.endpoint.host_key];
  const auto is_small = [](const auto& host) { return host.second <= kMostOfHostToExchange; };
  return ranks_of.size() == 1 || std::ranges::all_of(ranks_of, is_small);
}

Result<std::unique_ptr<comm::Communicator>> reach_device(std::unique_ptr<comm::Communicator> host, DeviceBuild build,
                                                         const comm::CancelToken& cancel) {
  const bool may_use_nccl = build.backend == Backend::kAuto || build.backend == Backend::kNccl;
  bool uses_nccl = may_use_nccl && (host->world_size() > 1 || sums_alone(*host, build));
  if (uses_nccl && host->world_size() > 1) {
    const auto agreed = agree(*host, build, cancel);
    if (!agreed) return agreed.error();
    uses_nccl = agreed->nccl || build.backend == Backend::kNccl;
    build.exchanges_narrow = agreed->exchanges_narrow;
  }
  if (!uses_nccl) return StagedCommunicator::over(std::move(host), std::move(build.device));
  comm::NcclOptions options;
  options.device = std::move(build.device);
  options.job = std::move(build.job);
  options.deadline = build.deadline;
  options.build = build.nccl_build;
  options.exchanges_narrow = build.exchanges_narrow;
  options.step_clock = std::move(build.step_clock);
  options.on_broken = std::move(build.on_broken);
  return comm::build_nccl_communicator(std::move(host), options, cancel, build.running);
}

CommunicatorBuilder::CommunicatorBuilder(Build build, Done done) : build_(std::move(build)), done_(std::move(done)) {}

CommunicatorBuilder::~CommunicatorBuilder() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (auto& [generation, entry] : entries_) entry->cancel.cancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CommunicatorBuilder::start(protocol::GenerationPlan plan, std::uint32_t rank) {
  {
    const std::lock_guard lock(mutex_);
    auto entry = std::make_shared<Entry>();
    entry->plan = std::move(plan);
    entry->rank = rank;
    entries_[entry->plan.generation] = std::move(entry);
    if (!thread_.joinable()) thread_ = background_thread("et-builder", [this] { run(); });
  }
  changed_.notify_all();
}

void CommunicatorBuilder::drop(Generation generation) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(generation);
    if (found == entries_.end()) return;
    found->second->cancel.cancel();
    retired_.push_back(std::move(found->second));
    entries_.erase(found);
  }
  changed_.notify_all();
}

std::optional<comm::BuildResult> CommunicatorBuilder::take(Generation generation) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(generation);
  if (found == entries_.end()) return std::nullopt;
  const auto entry = std::move(found->second);
  entries_.erase(found);
  return std::move(entry->result);
}

void CommunicatorBuilder::retire(std::shared_ptr<comm::Communicator> communicator) {
  if (!communicator) return;
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(communicator));
  }
  changed_.notify_all();
}

std::shared_ptr<CommunicatorBuilder::Entry> CommunicatorBuilder::next_to_build() const {
  for (const auto& [generation, entry] : entries_) {
    if (!entry->begun) return entry;
  }
  return nullptr;
}

void CommunicatorBuilder::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (const auto entry = next_to_build()) {
      build(entry, lock);
    } else if (!retired_.empty()) {
      auto closing = std::exchange(retired_, {});
      lock.unlock();
      closing.clear();
      lock.lock();
    } else {
      changed_.wait(lock);
    }
  }
}

void CommunicatorBuilder::build(const std::shared_ptr<Entry>& entry, std::unique_lock<std::mutex>& lock) {
  entry->begun = true;
  lock.unlock();
  auto result = build_(entry->plan, entry->rank, entry->cancel);
  const Generation generation = entry->plan.generation;
  const Status status = result ? Status() : Status(result.error());
  lock.lock();
  if (entry->cancel.cancelled()) {
    lock.unlock();
    result = Error{ErrorCode::kAborted, "dropped"};
    lock.lock();
    return;
  }
  if (result) {
    entry->result = std::move(*result);
  } else {
    entries_.erase(generation);
  }
  lock.unlock();
  done_(generation, status);
  lock.lock();
}

}  // namespace elastictrain::session
