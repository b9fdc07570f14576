#include "train/comm/nccl/nccl_comm.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kLookLimit{10};         // for a thread that is inside already
constexpr std::chrono::milliseconds kGoodbyeLimit{10'000};  // until all ranks are done with a generation
constexpr std::chrono::milliseconds kFinalizeLimit{5'000};
constexpr std::chrono::milliseconds kFinalizePause{1};

struct Ends {
  std::mutex mutex;
  std::condition_variable changed;
  int unfinished = 0;
};

// Never destroyed: a thread that was given up may outlive main().
Ends& ends() {
  static auto* all = new Ends;
  return *all;
}

void count_end(int by) {
  const std::lock_guard lock(ends().mutex);
  ends().unfinished += by;
  ends().changed.notify_all();
}

// Signals are for the program's own threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// Counts as unfinished until what `work` holds is gone; throws where no thread can be had.
void start_detached(std::function<void()> work) {
  const BlockedSignals blocked;
  count_end(1);
  auto run = [work = std::move(work)]() mutable {
    work();
    work = nullptr;
    count_end(-1);
  };
  try {
    std::thread thread(std::move(run));
    pthread_setname_np(thread.native_handle(), "et-nccl-end");
    thread.detach();
  } catch (const std::system_error&) {
    count_end(-1);
    throw;
  }
}

}  // namespace

int unfinished_nccl_ends() {
  const std::lock_guard lock(ends().mutex);
  return ends().unfinished;
}

bool await_nccl_ends(std::chrono::milliseconds limit) {
  std::unique_lock lock(ends().mutex);
  return ends().changed.wait_for(lock, limit, [] { return ends().unfinished == 0; });
}

NcclComm::NcclComm(const NcclLibrary& nccl, std::shared_ptr<device::Device> device, NcclInit init)
    : nccl_(nccl), device_(std::move(device)), init_(std::move(init)) {}

NcclComm::~NcclComm() = default;

Result<std::shared_ptr<NcclComm>> NcclComm::begin(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                  NcclInit init) {
  std::shared_ptr<NcclComm> comm(new NcclComm(nccl, std::move(device), std::move(init)));
  auto stream = device::Stream::create(comm->device_);
  if (!stream) return stream.error();
  comm->stream_ = std::move(*stream);
  const device::Device::Scope scope(*comm->device_);
  NcclConfig config;
  config.blocking = 0;
  config.comm_name = comm->init_.name.c_str();
  auto ids = comm->init_.ids;
  const int rank = static_cast<int>(comm->init_.rank);
  const int ranks = static_cast<int>(comm->init_.ranks);
  const NcclCode code =
      ids.size() > 1 && nccl.init_scalable != nullptr
          ? nccl.init_scalable(&comm->handle_, ranks, rank, static_cast<int>(ids.size()), ids.data(), &config)
          : nccl.init_rank(&comm->handle_, ranks, ids.front(), rank, &config);
  if (code == kNcclSuccess || code == kNcclInProgress) return comm;
  auto problem = nccl.error(code, "begin to build " + comm->init_.name, comm->handle_);
  // Never left half made: its thread is joined by the abort.
  if (comm->handle_ != nullptr) comm->abort();
  return problem;
}

NcclCode NcclComm::state() {
  const std::unique_lock lock(inside_, kLookLimit);
  if (!lock || ending_ || handle_ == nullptr) return kNcclInProgress;
  const device::Device::Scope scope(*device_);
  NcclCode state = kNcclInProgress;
  const NcclCode code = nccl_.async_error(handle_, &state);
  return code == kNcclSuccess ? state : code;
}

Status NcclComm::call(const std::string& doing, const std::function<NcclCode(NcclHandle)>& work) {
  const std::unique_lock lock(inside_, kLookLimit);
  if (!lock || ending_ || handle_ == nullptr) {
    return Error{ErrorCode::kAborted, "could not " + doing + ": the communicator is being ended"};
  }
  const device::Device::Scope scope(*device_);
  const NcclCode code = work(handle_);
  if (code == kNcclSuccess || code == kNcclInProgress) return {};
  return nccl_.error(code, doing, handle_);
}

Error NcclComm::error(NcclCode code, const std::string& doing) {
  const std::unique_lock lock(inside_, kLookLimit);
  return nccl_.error(code, doing, lock && !ending_ ? handle_ : nullptr);
}

bool NcclComm::has_ended(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return ended_; });
}

bool NcclComm::await_end() {
  return has_ended(init_.abort_deadline);
}

void NcclComm::end(const std::function<void()>& work, std::chrono::milliseconds limit,
                   const std::function<void()>& on_limit) {
  const auto self = shared_from_this();
  start_detached([self, work] {
    work();
    const std::lock_guard lock(self->mutex_);
    self->ended_ = true;
    self->changed_.notify_all();
  });
  start_detached([self, limit, on_limit] {
    if (!self->has_ended(limit)) on_limit();
  });
}

void NcclComm::abort() noexcept {
  if (ending_.exchange(true)) return;
  try {
    end([this] { abort_inside(); }, init_.abort_deadline,
        [this] {
          report("NCCL did not end " + init_.name + " within " + std::to_string(init_.abort_deadline.count()) + " ms");
        });
  } catch (const std::system_error& problem) {
    report(std::string("no thread could be started to end it: ") + problem.what());
  }
}

void NcclComm::abort_inside() {
  const std::lock_guard lock(inside_);
  const device::Device::Scope scope(*device_);
  nccl_.abort(std::exchange(handle_, nullptr));
  check_device();
}

// An abort leaves the device usable; what broke before it may not have.
void NcclComm::check_device() {
  const auto code = device_->cuda().stream_query(stream_.handle());
  if (device::is_sticky(code)) report(device_->cuda().error(code, "use the device after an abort").message);
}

void NcclComm::report(const std::string& what) {
  if (init_.on_wedged) init_.on_wedged(what);
}

void NcclComm::close(std::unique_ptr<Communicator> host_plane) noexcept {
  if (ending_.exchange(true)) return;
  try {
    const std::shared_ptr<Communicator> plane(std::move(host_plane));
    end(
        [this, plane] {
          if (!plane->barrier() || !finalize_and_destroy()) abort_inside();
        },
        kGoodbyeLimit, [plane] { plane->abort(); });
  } catch (const std::system_error& problem) {
    report(std::string("no thread could be started to close it: ") + problem.what());
  }
}

bool NcclComm::finalize_and_destroy() {
  const std::lock_guard lock(inside_);
  const device::Device::Scope scope(*device_);
  NcclCode state = nccl_.finalize(handle_);
  const auto until = std::chrono::steady_clock::now() + kFinalizeLimit;
  while (state == kNcclInProgress && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kFinalizePause);
    if (nccl_.async_error(handle_, &state) != kNcclSuccess) return false;
  }
  if (state != kNcclSuccess) return false;
  nccl_.destroy(std::exchange(handle_, nullptr));
  return true;
}

}  // namespace elastictrain::comm
