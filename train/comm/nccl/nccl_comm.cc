#include "train/comm/nccl/nccl_comm.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/device/stream.h"

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kLookLimit{10};         // to wait for a thread that is already inside
constexpr std::chrono::milliseconds kGoodbyeLimit{10'000};  // until all ranks are done with a generation
constexpr std::chrono::milliseconds kFinalizeLimit{5'000};
constexpr std::chrono::milliseconds kFinalizePause{1};
constexpr std::chrono::milliseconds kSettlePause{1};
constexpr std::chrono::milliseconds kSettleLimit{300};  // of NCCL's thread, to launch what was called
constexpr std::chrono::milliseconds kUnreadyLimit{30'000};
constexpr int kStepsOfLimit = 10;
constexpr int kBuildsOfLimit = 2;
constexpr std::chrono::milliseconds kLatePause{5};
constexpr std::chrono::milliseconds kBetweenLateLooks{10'000};  // at an end that no caller waits for any more
constexpr std::chrono::milliseconds kAnswerLimit{200};          // of the driver, about a stream
// The supervisor ends such a worker far sooner, if another one holds the state.
constexpr std::chrono::minutes kHeldLimit{10};
// A stream of the caller's that takes longer hangs, which is for the supervisor to find.
constexpr std::chrono::minutes kCallerLimit{10};
constexpr std::chrono::milliseconds kCallerPause{5};

struct Ends {
  std::mutex mutex;
  std::condition_variable changed;
  int unfinished = 0;
  int abandoned_builds = 0;
  std::multiset<std::chrono::steady_clock::time_point> left;
  std::multiset<std::string> holding;
};

// Never destroyed: an abandoned thread may outlive main().
Ends& ends() {
  static auto* all = new Ends;
  return *all;
}

void count_end(int by) {
  const std::lock_guard lock(ends().mutex);
  ends().unfinished += by;
  ET_CHECK(ends().unfinished >= 0, "no more ends are made than were begun");
  ends().changed.notify_all();
}

// Is in a set of all ends while it exists.
template <class Value>
class Listed {
 public:
  Listed(std::multiset<Value>& set, Value value) : set_(set) {
    const std::lock_guard lock(ends().mutex);
    at_ = set_.insert(std::move(value));
  }
  ~Listed() {
    const std::lock_guard lock(ends().mutex);
    set_.erase(at_);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  std::multiset<Value>& set_;
  typename std::multiset<Value>::iterator at_;
};

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

// Counts as unfinished until everything that `work` holds is released. Throws if no thread can be started.
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

bool is_begun(NcclCode code) {
  return code == kNcclSuccess || code == kNcclInProgress;
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

std::chrono::milliseconds longest_left_nccl_end() {
  const std::lock_guard lock(ends().mutex);
  if (ends().left.empty()) return {};
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - *ends().left.begin());
}

std::optional<std::string> nccl_end_that_holds_the_device() {
  const std::lock_guard lock(ends().mutex);
  if (ends().holding.empty()) return std::nullopt;
  return *ends().holding.begin();
}

int abandoned_nccl_builds() {
  const std::lock_guard lock(ends().mutex);
  return ends().abandoned_builds;
}

NcclComm::NcclComm(const NcclLibrary& nccl, std::shared_ptr<device::Device> device, NcclInit init)
    : nccl_(nccl), device_(std::move(device)), init_(std::move(init)) {}

NcclComm::~NcclComm() = default;

Result<std::shared_ptr<NcclComm>> NcclComm::unmade(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                   NcclInit init) {
  std::shared_ptr<NcclComm> comm(new NcclComm(nccl, std::move(device), std::move(init)));
  auto stream = device::Stream::create(comm->device_);
  if (!stream) return stream.error();
  comm->stream_ = std::move(*stream);
  return comm;
}

Result<std::shared_ptr<NcclComm>> NcclComm::begin(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                  NcclInit init) {
  auto comm = unmade(nccl, std::move(device), std::move(init));
  if (!comm) return comm;
  auto& made = **comm;
  ET_CHECK(!made.init_.ids.empty() && made.init_.rank < made.init_.ranks, "NCCL is built of ids that were agreed on");
  const device::Device::Scope scope(*made.device_);
  NcclConfig config;
  config.blocking = 0;
  config.comm_name = made.init_.name.c_str();
  auto ids = made.init_.ids;
  const int rank = static_cast<int>(made.init_.rank);
  const int ranks = static_cast<int>(made.init_.ranks);
  const NcclCode code =
      ids.size() > 1 && nccl.init_scalable != nullptr
          ? nccl.init_scalable(&made.handle_, ranks, rank, static_cast<int>(ids.size()), ids.data(), &config)
          : nccl.init_rank(&made.handle_, ranks, ids.front(), rank, &config);
  if (is_begun(code)) return comm;
  auto problem = nccl.error(code, "begin to build " + made.init_.name, made.handle_);
  // A partially built communicator is never left behind: the abort joins its thread.
  if (made.handle_ != nullptr) made.abort();
  return problem;
}

Result<std::shared_ptr<NcclComm>> NcclComm::begin_shrunk(const NcclLibrary& nccl,
                                                         std::shared_ptr<device::Device> device, NcclInit init,
                                                         const std::shared_ptr<NcclComm>& parent,
                                                         std::vector<int> left_out) {
  auto comm = unmade(nccl, std::move(device), std::move(init));
  if (!comm) return comm;
  auto& made = **comm;
  made.shrinking_ = std::make_shared<Shrinking>(Shrinking{made.init_.name, std::move(left_out)});
  made.parent_ = parent;
  if (auto begun = parent->shrink(made.shrinking_); !begun) return begun.error();
  return comm;
}

Status NcclComm::shrink(const std::shared_ptr<Shrinking>& shrinking) {
  const std::string doing = "shrink " + init_.name + " to " + shrinking->name;
  const std::unique_lock lock(inside_, kLookLimit);
  const Stage stage = stage_;
  const bool open = stage == Stage::kOpen || stage == Stage::kStopped;
  if (!lock || !open || handle_ == nullptr || nccl_.shrink == nullptr || was_parent_.exchange(true)) {
    return Error{ErrorCode::kAborted, "could not " + doing + ": the communicator can no longer be a parent"};
  }
  shrunk_ = shrinking;
  const device::Device::Scope scope(*device_);
  NcclConfig config;
  config.blocking = 0;
  config.comm_name = shrinking->name.c_str();
  config.shrink_share = 0;
  auto& left_out = shrinking->left_out;
  const NcclCode code = nccl_.shrink(handle_, left_out.data(), static_cast<int>(left_out.size()), &shrinking->made,
                                     &config, kNcclShrinkDefault);
  return is_begun(code) ? Status() : nccl_.error(code, doing, handle_);
}

NcclCode NcclComm::state() {
  const std::unique_lock lock(inside_, kLookLimit);
  const Stage stage = stage_;
  if (!lock || stage == Stage::kStopping || stage == Stage::kEnding) return kNcclInProgress;
  if (parent_) {
    const NcclCode code = take_from_parent();
    if (code != kNcclSuccess) return code;
  }
  if (handle_ == nullptr) return kNcclInProgress;
  const device::Device::Scope scope(*device_);
  NcclCode state = kNcclInProgress;
  const NcclCode code = nccl_.async_error(handle_, &state);
  if (code != kNcclSuccess) return code;
  if (state != kNcclInProgress) settled_ = true;
  if (state == kNcclSuccess && !ready_) {
    build_time_ = std::chrono::steady_clock::now() - begun_;
    ready_ = true;
  }
  return state;
}

NcclCode NcclComm::take_from_parent() {
  const NcclCode code = parent_->state();
  if (code == kNcclInProgress && parent_->stage_ == Stage::kEnding) return kNcclInvalidUsage;
  if (code != kNcclSuccess) return code;
  ET_CHECK(handle_ == nullptr, "a communicator is taken from its parent once");
  handle_ = shrinking_->made;
  parent_ = nullptr;
  return handle_ != nullptr ? kNcclSuccess : kNcclInvalidUsage;
}

Status NcclComm::call(const std::string& doing, const std::function<NcclCode(NcclHandle)>& work) {
  const std::unique_lock lock(inside_, kLookLimit);
  if (!lock || stage_ != Stage::kOpen || handle_ == nullptr) {
    return Error{ErrorCode::kAborted, "could not " + doing + ": the communicator is being ended"};
  }
  const device::Device::Scope scope(*device_);
  settled_ = false;
  const NcclCode code = work(handle_);
  return is_begun(code) ? Status() : nccl_.error(code, doing, handle_);
}

Error NcclComm::error(NcclCode code, const std::string& doing) {
  const std::unique_lock lock(inside_, kLookLimit);
  return nccl_.error(code, doing, lock && stage_ != Stage::kEnding ? handle_ : nullptr);
}

NcclComm::Parenthood NcclComm::parenthood() {
  if (nccl_.shrink == nullptr || was_parent_ || !ready_) return Parenthood::kNone;
  if (stage_ == Stage::kOpen) return Parenthood::kInUse;
  if (stage_ == Stage::kEnding) return Parenthood::kNone;
  await_end();
  return stage_ == Stage::kStopped && state() == kNcclSuccess ? Parenthood::kStopped : Parenthood::kNone;
}

bool NcclComm::await_end() {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return unfinished_ == 0 || given_up_ || left_; };
  if (ready_)
    changed_.wait(lock, over);  // the watch gives up in time
  else
    changed_.wait_for(lock, init_.abort_deadline, over);
  return unfinished_ == 0 || left_;
}

void NcclComm::end(const std::function<void()>& work, const std::function<void(const EndedWithin&)>& watch) {
  const auto self = shared_from_this();
  const auto done = std::make_shared<bool>(false);
  {
    const std::lock_guard lock(mutex_);
    ++unfinished_;
  }
  start_detached([self, done, work] {
    work();
    const std::lock_guard lock(self->mutex_);
    ET_CHECK(self->unfinished_ > 0, "an end is counted before it is made");
    --self->unfinished_;
    *done = true;
    self->changed_.notify_all();
  });
  start_detached([self, done, watch] {
    const auto ended_within = [&](std::chrono::milliseconds time) {
      std::unique_lock lock(self->mutex_);
      return self->changed_.wait_for(lock, time, [&] { return *done; });
    };
    watch(ended_within);
    if (!ended_within(std::chrono::milliseconds(0))) self->give_up();
  });
}

void NcclComm::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

void NcclComm::end_in_time(const std::function<void()>& work) {
  try {
    end(work, [this, may_begin = caller_is_done(), limit = end_limit()](const EndedWithin& ended) {
      watch_end(ended, may_begin, limit);
    });
  } catch (const std::system_error& problem) {
    give_up();  // nobody else would end a wait for it
    report(std::string("no thread could be started to end it: ") + problem.what());
  }
}

void NcclComm::watch_end(const EndedWithin& ended, const std::function<bool()>& may_begin,
                         std::chrono::milliseconds limit) {
  const auto latest = std::chrono::steady_clock::now() + kCallerLimit;
  while (!may_begin() && std::chrono::steady_clock::now() < latest) {
    if (ended(kCallerPause)) return;
  }
  if (!ended(limit) && ready_) watch_late_end(ended, limit);
}

void NcclComm::watch_late_end(const EndedWithin& ended, std::chrono::milliseconds limit) {
  const std::string late = "NCCL did not end " + init_.name + " within " + std::to_string(limit.count()) + " ms";
  const auto idle = std::make_shared<std::atomic<bool>>(false);
  std::optional<Listed<std::string>> holding;
  const auto since = std::chrono::steady_clock::now();
  try {
    look_at_stream(idle);
  } catch (const std::system_error&) {
    // Without a thread nobody knows, so the device counts as busy.
  }
  while (!*idle) {
    if (ended(kLatePause)) return;
    const auto held = std::chrono::steady_clock::now() - since;
    if (held > kHeldLimit) return report(late + ", and the device still works for it");
    if (held > kAnswerLimit && !holding) holding.emplace(ends().holding, late);
  }
  holding.reset();
  const Listed left(ends().left, std::chrono::steady_clock::now());
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }
  while (!ended(kBetweenLateLooks)) {
  }
}

// On a thread of its own, for as long as the end goes on: the driver may keep others out until an end is over.
void NcclComm::look_at_stream(const std::shared_ptr<std::atomic<bool>>& idle) {
  start_detached([self = shared_from_this(), idle] {
    const device::Device::Scope scope(*self->device_);
    const auto is_over = [&] {
      const std::lock_guard lock(self->mutex_);
      return self->unfinished_ == 0 || self->given_up_;
    };
    while (!is_over()) {
      if (self->settled_ && self->device_->cuda().stream_query(self->stream_.handle()) == device::kCudaSuccess) {
        *idle = true;
        return;
      }
      std::this_thread::sleep_for(kLatePause);
    }
  });
}

void NcclComm::used_by(std::optional<device::CudaStream> caller) {
  const std::lock_guard lock(mutex_);
  caller_ = caller;
}

std::chrono::milliseconds NcclComm::end_limit() const {
  if (!ready_) return kUnreadyLimit;
  const auto builds = std::chrono::ceil<std::chrono::milliseconds>(kBuildsOfLimit * build_time_.load());
  const auto normal = init_.step_clock ? init_.step_clock().normal : std::chrono::microseconds(0);
  const auto steps = std::chrono::ceil<std::chrono::milliseconds>(kStepsOfLimit * normal);
  return std::max({init_.abort_deadline, steps, builds});
}

// Marked before the end begins, which may keep other threads out of the driver until it is done.
std::function<bool()> NcclComm::caller_is_done() {
  std::optional<device::CudaStream> caller;
  {
    const std::lock_guard lock(mutex_);
    caller = caller_;
  }
  if (!caller) return [] { return true; };
  auto mark = device::Event::create(device_);
  if (!mark || !mark->record(*caller)) return [] { return true; };
  return [mark = std::make_shared<device::Event>(std::move(*mark))] { return mark->query() != device::kCudaNotReady; };
}

void NcclComm::stop() noexcept {
  if (!ready_ || was_parent_ || nccl_.revoke == nullptr) return abort();
  Stage open = Stage::kOpen;
  if (stage_.compare_exchange_strong(open, Stage::kStopping)) end_in_time([this] { revoke_inside(); });
}

// If the revocation takes more than half of the time, the rest is for an abort.
void NcclComm::revoke_inside() {
  const std::lock_guard lock(inside_);
  // An abort that was requested meanwhile may have been faster.
  if (stage_ != Stage::kStopping) return;
  const device::Device::Scope scope(*device_);
  const auto until = std::chrono::steady_clock::now() + init_.abort_deadline / 2;
  // From a settled state only: a thread of NCCL may still give the last operation to the device.
  const NcclCode before = settle(until);
  NcclCode after = kNcclInProgress;
  if (before != kNcclInProgress) {
    after = nccl_.revoke(handle_, kNcclRevokeDefault);
    // The network's error stays, although the operations have ended.
    if (is_begun(after) || after == before) after = settle(until);
  }
  const bool stopped = after == kNcclSuccess || (after == before && after != kNcclInProgress);
  Stage stopping = Stage::kStopping;
  if (stopped) {
    stage_.compare_exchange_strong(stopping, Stage::kStopped);
  } else if (stage_.exchange(Stage::kEnding) == Stage::kStopping) {
    nccl_.abort(std::exchange(handle_, nullptr));
  }
  check_device();
}

NcclCode NcclComm::settle(std::chrono::steady_clock::time_point until) {
  for (;;) {
    NcclCode state = kNcclInProgress;
    if (nccl_.async_error(handle_, &state) != kNcclSuccess) return kNcclInProgress;
    if (state != kNcclInProgress) {
      settled_ = true;
      return state;
    }
    if (std::chrono::steady_clock::now() > until) return kNcclInProgress;
    std::this_thread::sleep_for(kSettlePause);
  }
}

void NcclComm::abort() noexcept {
  if (stage_.exchange(Stage::kEnding) != Stage::kEnding) end_in_time([this] { abort_inside(); });
}

void NcclComm::abort_inside() {
  const std::lock_guard lock(inside_);
  if (!ready_) {
    const std::lock_guard counting(ends().mutex);
    ++ends().abandoned_builds;
  }
  if (parent_) abort_parent();
  const device::Device::Scope scope(*device_);
  if (handle_ != nullptr) {
    // Nobody can ask any more once the abort has begun, and a late end is judged by it.
    if (!settled_) settle(std::chrono::steady_clock::now() + kSettleLimit);
    nccl_.abort(std::exchange(handle_, nullptr));
  }
  check_device();
}

// Only the parent's abort ends a partially built communicator that is shrunk from it.
void NcclComm::abort_parent() {
  const auto parent = std::exchange(parent_, nullptr);
  parent->abort();
  parent->await_end();
  const std::lock_guard lock(parent->mutex_);
  if (parent->unfinished_ == 0) handle_ = shrinking_->made;
}

// An abort leaves the device usable. An error before the abort may have made it unusable.
void NcclComm::check_device() {
  const auto code = device_->cuda().stream_query(stream_.handle());
  if (device::is_sticky(code)) report(device_->cuda().error(code, "use the device after an abort").message);
}

void NcclComm::report(const std::string& what) {
  if (init_.on_broken) init_.on_broken(what);
}

void NcclComm::close(std::unique_ptr<Communicator> host_plane) noexcept {
  if (stage_.exchange(Stage::kEnding) == Stage::kEnding) return;
  try {
    const std::shared_ptr<Communicator> plane(std::move(host_plane));
    end(
        [this, plane] {
          if (!all_may_finalize(*plane) || !finalize_and_destroy()) abort_inside();
        },
        [plane](const EndedWithin& ended) {
          if (!ended(kGoodbyeLimit)) plane->abort();
        });
  } catch (const std::system_error& problem) {
    report(std::string("no thread could be started to close it: ") + problem.what());
  }
}

// All ranks of a parent abort it, including those that were left out: a rank that finalizes would wait for the others.
bool NcclComm::all_may_finalize(Communicator& host_plane) {
  const std::byte mine{was_parent_ ? std::uint8_t{1} : std::uint8_t{0}};
  std::vector<std::byte> all(host_plane.world_size());
  if (!host_plane.all_gather({&mine, 1}, all)) return false;
  return std::none_of(all.begin(), all.end(), [](std::byte was_parent) { return was_parent != std::byte{0}; });
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
