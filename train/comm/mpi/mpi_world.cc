#include "train/comm/mpi/mpi_world.h"

#include <algorithm>

namespace elastictrain::comm {
namespace {

constexpr int kNoticeTag = 0;
// More than ever wait to be built at a time.
constexpr std::size_t kMostBrokenKept = 1000;

}  // namespace

class MpiWorld::Turn {
 public:
  explicit Turn(MpiWorld& world) {
    if (!world.library_->threads_may_call()) lock_ = std::unique_lock(world.one_caller_);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

Result<MpiWorld*> MpiWorld::join() {
  static const Result<MpiWorld*> world = make();
  return world;
}

Result<MpiWorld*> MpiWorld::make() {
  auto library = MpiLibrary::open();
  if (!library) return library.error();
  if (auto status = (*library)->join(); !status) return status.error();
  // MPI's own threads may use it until the process has ended.
  auto* world = new MpiWorld(std::move(*library));
  if (auto status = world->listen(); !status) return status.error();
  return world;
}

Status MpiWorld::listen() {
  heard_ = std::make_unique<Notice>();
  auto bytes = std::as_writable_bytes(std::span(&heard_->generation, 1));
  auto request = library_->receive(bytes, MpiLibrary::kAnyRank, kNoticeTag);
  if (!request) return request.error();
  heard_->request = *request;
  return {};
}

int MpiWorld::tag(Generation generation, Plane plane) const {
  const auto generations = static_cast<Generation>((library_->greatest_tag() - 1) / 2);
  return static_cast<int>(1 + 2 * (generation % generations)) + (plane == Plane::kCollective ? 0 : 1);
}

Result<MpiRequest> MpiWorld::send(std::span<const std::byte> bytes, std::uint32_t to, int tag) {
  const Turn turn(*this);
  return library_->send(bytes, static_cast<int>(to), tag);
}

Result<MpiRequest> MpiWorld::receive(std::span<std::byte> bytes, std::uint32_t from, int tag) {
  const Turn turn(*this);
  return library_->receive(bytes, static_cast<int>(from), tag);
}

Result<std::optional<std::size_t>> MpiWorld::test(MpiRequest& request) {
  const Turn turn(*this);
  return library_->test(request);
}

void MpiWorld::abandon(MpiRequest request, std::unique_ptr<MpiMessage> message, bool receives) noexcept {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this);
  if (receives) library_->cancel(request);
  abandoned_.push_back({request, std::move(message)});
  bury();
}

void MpiWorld::bury() {
  std::erase_if(abandoned_, [&](Abandoned& entry) {
    const auto done = library_->test(entry.request);
    return done && *done;
  });
}

void MpiWorld::tell_broken(Generation generation, std::span<const std::uint32_t> ranks) noexcept {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this);
  broken_.insert(generation);
  forget_sent_notices();
  for (const auto to : ranks) {
    if (to == rank()) continue;
    auto notice = std::make_unique<Notice>(Notice{generation, {}});
    const auto bytes = std::as_bytes(std::span(&notice->generation, 1));
    const auto request = library_->send(bytes, static_cast<int>(to), kNoticeTag);
    if (!request) continue;  // a rank that is lost needs no notice
    notice->request = *request;
    told_.push_back(std::move(notice));
  }
}

void MpiWorld::forget_sent_notices() {
  std::erase_if(told_, [&](const std::unique_ptr<Notice>& notice) {
    const auto done = library_->test(notice->request);
    return done && *done;
  });
}

bool MpiWorld::is_broken(Generation generation) {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this);
  while (heard_) {
    const auto done = library_->test(heard_->request);
    if (done && !*done) break;
    if (done) broken_.insert(heard_->generation);
    if (broken_.size() > kMostBrokenKept) broken_.erase(broken_.begin());
    if (!listen()) heard_.reset();
  }
  return broken_.contains(generation);
}

Status MpiWorld::leave() {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this);
  if (const auto listening = std::move(heard_)) {
    library_->cancel(listening->request);
    (void)library_->test(listening->request);
  }
  return library_->leave();
}

}  // namespace elastictrain::comm
