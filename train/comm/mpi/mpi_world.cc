#include "train/comm/mpi/mpi_world.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

namespace elastictrain::comm {

MpiThread& MpiThread::of_process() {
  static auto& thread = *new MpiThread;
  return thread;
}

bool MpiThread::run(std::function<void()> work, std::chrono::milliseconds time_limit) {
  const auto deadline = std::chrono::steady_clock::now() + time_limit;
  const auto idle = [this] { return !work_; };
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, idle)) return false;
  work_ = std::move(work);
  if (!std::exchange(started_, true)) start();
  changed_.notify_all();
  return changed_.wait_until(lock, deadline, idle);
}

// Blocks signals: handlers of the program, and threads that MPI starts from here, run as they would without this
// thread.
void MpiThread::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([this] { serve(); });
  pthread_setname_np(thread.native_handle(), "et-mpi");
  thread.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void MpiThread::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return bool(work_); });
    const auto work = work_;
    lock.unlock();
    work();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

namespace {

constexpr int kNoticeTag = 0;
// More than ever wait to be built at the same time.
constexpr std::size_t kMaxBrokenKept = 1000;

std::string ranks_of_launch() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    if (const char* size = std::getenv(name)) return std::string("all ") + size + " ranks";
  }
  return "all ranks";
}

// MPICH's MPI_Finalize synchronizes through the launcher, and aborts the process if that is gone.
bool launcher_is_gone() {
  const char* const descriptor = std::getenv("PMI_FD");
  if (descriptor == nullptr) return false;
  pollfd launcher{std::atoi(descriptor), POLLRDHUP, 0};
  return ::poll(&launcher, 1, 0) > 0;
}

}  // namespace

class MpiWorld::Turn {
 public:
  explicit Turn(MpiWorld& world) {
    if (!world.library_->threads_may_call()) lock_ = std::unique_lock(world.one_caller_);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

Result<MpiWorld*> MpiWorld::join(std::chrono::milliseconds time_limit) {
  static auto& joined = *new std::optional<Result<MpiWorld*>>;
  const auto work = [] {
    if (!joined) joined = make();
  };
  if (MpiThread::of_process().run(work, time_limit)) return *joined;
  return Error{ErrorCode::kTimeout,
               "MPI_Init waits for " + ranks_of_launch() + " of the launch; some have not called it within " +
                   std::to_string(time_limit.count()) +
                   " ms: check which worker has not started, or allow more time (ELASTICTRAIN_MPI_INIT_TIMEOUT_MS)"};
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

Status MpiWorld::there() const {
  if (!left_) [[likely]]
    return {};
  return Error{ErrorCode::kUnavailable, "this process has left MPI"};
}

Status MpiWorld::listen() {
  received_ = std::make_unique<Notice>();
  auto bytes = std::as_writable_bytes(std::span(&received_->generation, 1));
  auto request = library_->receive(bytes, MpiLibrary::kAnyRank, kNoticeTag);
  if (!request) return request.error();
  received_->request = *request;
  return {};
}

int MpiWorld::tag(Generation generation, Plane plane) const {
  const auto generations = static_cast<Generation>((library_->greatest_tag() - 1) / 2);
  return static_cast<int>(1 + 2 * (generation % generations)) + (plane == Plane::kCollective ? 0 : 1);
}

Result<MpiRequest> MpiWorld::send(std::span<const std::byte> bytes, std::uint32_t to, int tag) {
  if (auto status = there(); !status) return status.error();
  const Turn turn(*this);
  return library_->send(bytes, static_cast<int>(to), tag);
}

Result<MpiRequest> MpiWorld::receive(std::span<std::byte> bytes, std::uint32_t from, int tag) {
  if (auto status = there(); !status) return status.error();
  const Turn turn(*this);
  return library_->receive(bytes, static_cast<int>(from), tag);
}

Result<std::optional<std::size_t>> MpiWorld::test(MpiRequest& request) {
  if (auto status = there(); !status) return status.error();
  const Turn turn(*this);
  return library_->test(request);
}

void MpiWorld::abandon(MpiRequest request, std::unique_ptr<MpiMessage> message, bool receives) noexcept {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this);
  if (receives && !left_) library_->cancel(request);
  abandoned_.push_back({request, std::move(message)});
  release_notices();
}

void MpiWorld::release_notices() {
  if (left_) return;
  std::erase_if(abandoned_, [&](Abandoned& entry) {
    const auto done = library_->test(entry.request);
    return done && *done;
  });
}

void MpiWorld::notify_broken(Generation generation, std::span<const std::uint32_t> ranks) noexcept {
  const std::lock_guard lock(mutex_);
  if (left_) return;
  const Turn turn(*this);
  broken_.insert(generation);
  forget_sent_notices();
  for (const auto to : ranks) {
    if (to == rank()) continue;
    auto notice = std::make_unique<Notice>(Notice{generation, {}});
    const auto bytes = std::as_bytes(std::span(&notice->generation, 1));
    const auto request = library_->send(bytes, static_cast<int>(to), kNoticeTag);
    if (!request) continue;  // a lost rank needs no notice
    notice->request = *request;
    reported_.push_back(std::move(notice));
  }
}

void MpiWorld::forget_sent_notices() {
  std::erase_if(reported_, [&](const std::unique_ptr<Notice>& notice) {
    const auto done = library_->test(notice->request);
    return done && *done;
  });
}

bool MpiWorld::is_broken(Generation generation) {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this);
  hear();
  return broken_.contains(generation);
}

void MpiWorld::progress() noexcept {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this);
  hear();
  release_notices();
  if (!left_) forget_sent_notices();
}

void MpiWorld::hear() {
  while (received_ && !left_) {
    const auto done = library_->test(received_->request);
    if (done && !*done) break;
    if (done) broken_.insert(received_->generation);
    if (broken_.size() > kMaxBrokenKept) broken_.erase(broken_.begin());
    if (!listen()) received_.reset();
  }
}

Status MpiWorld::leave(std::chrono::milliseconds time_limit) {
  {
    const std::lock_guard lock(mutex_);
    const Turn turn(*this);
    if (left_.exchange(true)) return {};
    if (received_) {
      library_->cancel(received_->request);
      (void)library_->test(received_->request);
    }
    if (!broken_.empty()) return Error{ErrorCode::kPeerLost, "MPI_Finalize would wait for ranks that may be lost"};
  }
  if (!library_->began_here()) return {};
  if (launcher_is_gone()) return Error{ErrorCode::kPeerLost, "MPI_Finalize would abort: the launcher is gone"};
  const auto outcome = std::make_shared<Status>();
  const auto work = [this, outcome] { *outcome = library_->leave(); };
  if (MpiThread::of_process().run(work, time_limit)) return *outcome;
  return Error{ErrorCode::kTimeout, "MPI_Finalize waits for ranks that did not call it within " +
                                        std::to_string(time_limit.count()) +
                                        " ms (ELASTICTRAIN_MPI_FINALIZE_TIMEOUT_MS)"};
}

}  // namespace elastictrain::comm
