#include "tests/standin/standin_cuda.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace standin {

std::map<std::string, Kernel>& kernels() {
  static auto* all = new std::map<std::string, Kernel>;
  return *all;
}

namespace {

using Clock = std::chrono::steady_clock;

struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  Clock::time_point time;
};

struct Event {
  std::mutex mutex;
  std::shared_ptr<Mark> mark;  // of the latest record
};

void wait_for(Mark& mark) {
  std::unique_lock lock(mark.mutex);
  mark.changed.wait(lock, [&] { return mark.reached; });
}

bool is_reached(Mark& mark) {
  const std::lock_guard lock(mark.mutex);
  return mark.reached;
}

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void put(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      work();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

struct Piece {
  std::size_t bytes = 0;
  int ordinal = 0;
  bool on_device = false;  // else the host's
};

struct State {
  std::mutex mutex;
  std::map<std::shared_ptr<Stream>, int> streams;  // with their devices
  std::map<int, std::shared_ptr<Stream>> legacy;
  std::map<void*, Piece> memory;
  std::set<std::pair<int, const void*>> loaded;  // kernels, by device
  std::atomic<std::size_t> events{0};
  std::atomic<std::size_t> queries{0};
  std::atomic<int> fault{0};
  std::atomic<int> capturing{0};
};

// The contexts that this thread has pushed, as numbers of devices.
thread_local std::vector<int> contexts;

int current_device() {
  return contexts.empty() ? 0 : contexts.back();
}

State& state() {
  static auto* all = new State;
  return *all;
}

std::shared_ptr<Stream> find(void* handle) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  if (handle == nullptr) {
    auto& legacy = all.legacy[current_device()];
    if (!legacy) legacy = std::make_shared<Stream>();
    return legacy;
  }
  for (const auto& [stream, ordinal] : all.streams) {
    if (stream.get() == handle) return stream;
  }
  return nullptr;
}

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidHandle = 400;
constexpr int kNotFound = 500;
constexpr int kNotReady = 600;

int put(void* handle, std::function<void()> work) {
  if (const int fault = state().fault) return fault;
  const auto stream = find(handle);
  if (!stream) return kInvalidHandle;
  stream->put(std::move(work));
  return 0;
}

// A device's memory, which its processes share if $ET_STANDIN_MEMORY_DIR is set: each one writes there what it holds.
// $ET_STANDIN_MEMORY_BYTES: how much a device has.
std::size_t device_bytes() {
  const char* bytes = std::getenv("ET_STANDIN_MEMORY_BYTES");
  return bytes == nullptr ? std::size_t{1} << 40 : std::strtoull(bytes, nullptr, 10);
}

std::filesystem::path ledger_of(int ordinal) {
  const char* directory = std::getenv("ET_STANDIN_MEMORY_DIR");
  if (directory == nullptr) return {};
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return std::filesystem::path(directory) / ((visible == nullptr ? "all" : visible) + ("-" + std::to_string(ordinal)));
}

// Call it with the mutex locked.
std::size_t held_here(int ordinal) {
  std::size_t held = 0;
  for (const auto& [memory, piece] : state().memory)
    held += piece.on_device && piece.ordinal == ordinal ? piece.bytes : 0;
  return held;
}

std::size_t held_by_others(int ordinal) {
  const std::filesystem::path ledger = ledger_of(ordinal);
  if (ledger.empty() || !std::filesystem::exists(ledger)) return 0;
  std::size_t held = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ledger)) {
    const auto pid = static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    std::size_t bytes = 0;
    if (pid != ::getpid() && ::kill(pid, 0) == 0 && std::ifstream(entry.path()) >> bytes) held += bytes;
  }
  return held;
}

void write_ledger(int ordinal) {
  const std::filesystem::path ledger = ledger_of(ordinal);
  if (ledger.empty()) return;
  std::filesystem::create_directories(ledger);
  std::ofstream(ledger / std::to_string(::getpid())) << held_here(ordinal);
}

int allocate(void** place, std::size_t bytes, bool on_device) {
  if (const int fault = state().fault) return fault;
  if (bytes == 0) return kInvalidValue;
  const int ordinal = current_device();
  const std::lock_guard lock(state().mutex);
  if (on_device && held_here(ordinal) + held_by_others(ordinal) + bytes > device_bytes()) return kOutOfMemory;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) return kOutOfMemory;
  state().memory[memory] = {bytes, ordinal, on_device};
  if (on_device) write_ledger(ordinal);
  *place = memory;
  return 0;
}

std::vector<std::shared_ptr<Stream>> streams_of(int ordinal) {
  const std::lock_guard lock(state().mutex);
  std::vector<std::shared_ptr<Stream>> found;
  for (const auto& [stream, on] : state().streams) {
    if (on == ordinal) found.push_back(stream);
  }
  if (const auto legacy = state().legacy.find(ordinal); legacy != state().legacy.end()) found.push_back(legacy->second);
  return found;
}

void reach(Mark& mark) {
  const std::lock_guard lock(mark.mutex);
  mark.reached = true;
  mark.time = Clock::now();
  mark.changed.notify_all();
}

// Waits for all work that the device's streams hold now.
void await_device(int ordinal) {
  std::vector<std::shared_ptr<Mark>> marks;
  for (const auto& stream : streams_of(ordinal)) {
    if (stream->idle()) continue;
    const auto mark = marks.emplace_back(std::make_shared<Mark>());
    stream->put([mark] { reach(*mark); });
  }
  for (const auto& mark : marks) wait_for(*mark);
}

// Freeing waits for the whole device, as a driver does that cannot know who uses the memory.
int release(void* memory) {
  Piece piece;
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().memory.find(memory);
    if (found == state().memory.end()) return kInvalidValue;
    piece = found->second;
  }
  await_device(piece.ordinal);
  {
    const std::lock_guard lock(state().mutex);
    state().memory.erase(memory);
    if (piece.on_device) write_ledger(piece.ordinal);
  }
  std::free(memory);
  return state().fault;
}

bool is_allocated(const void* address) {
  const std::lock_guard lock(state().mutex);
  auto after = state().memory.upper_bound(const_cast<void*>(address));
  if (after == state().memory.begin()) return false;
  const auto& [begin, piece] = *--after;
  return static_cast<const char*>(address) < static_cast<const char*>(begin) + piece.bytes;
}

// A copy from or to host memory that is not pinned returns when it is done: it waits for all that is before it.
int put_copy(const void* host, void* stream, std::function<void()> work) {
  if (is_allocated(host)) return put(stream, std::move(work));
  const auto mark = std::make_shared<Mark>();
  const int code = put(stream, [work = std::move(work), mark] {
    work();
    reach(*mark);
  });
  if (code == 0) wait_for(*mark);
  return code;
}

bool loads_lazily() {
  const char* mode = std::getenv("CUDA_MODULE_LOADING");
  return mode == nullptr || std::strcmp(mode, "EAGER") != 0;
}

int device_count() {
  const char* wanted = std::getenv("ET_STANDIN_GPUS");
  return wanted != nullptr ? std::atoi(wanted) : 1;
}

void* at(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API int standin_cuda_enqueue(void* stream, void (*work)(void*), void* argument) {
  return put(stream, [work, argument] { work(argument); });
}

STANDIN_API void standin_cuda_take_time(const char* variable, Clock::time_point begin) {
  const char* wanted = std::getenv(variable);
  if (wanted != nullptr) std::this_thread::sleep_until(begin + std::chrono::microseconds(std::atoi(wanted)));
}

STANDIN_API int standin_cuda_current_device() {
  return current_device();
}

STANDIN_API void standin_cuda_enter(int ordinal) {
  contexts.push_back(ordinal);
}

STANDIN_API void standin_cuda_leave() {
  contexts.pop_back();
}

STANDIN_API bool standin_cuda_idle() {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const auto all = streams_of(ordinal);
    if (!std::all_of(all.begin(), all.end(), [](const auto& stream) { return stream->idle(); })) return false;
  }
  return true;
}

STANDIN_API void standin_cuda_await_device(int ordinal) {
  await_device(ordinal);
}

STANDIN_API void standin_cuda_load(const void* code) {
  if (!loads_lazily()) return;
  {
    const std::lock_guard lock(state().mutex);
    if (!state().loaded.insert({current_device(), code}).second) return;
  }
  await_device(current_device());
}

STANDIN_API void standin_cuda_capture(int status) {
  state().capturing = status;
}

STANDIN_API void standin_cuda_fault(int code) {
  state().fault = code;
}

STANDIN_API std::size_t standin_cuda_queries() {
  return state().queries;
}

STANDIN_API void standin_cuda_alive(std::size_t* streams, std::size_t* events, std::size_t* allocations) {
  const std::lock_guard lock(state().mutex);
  *streams = state().streams.size();
  *events = state().events;
  *allocations = state().memory.size();
}

STANDIN_API int cuInit(unsigned) {
  return 0;
}
STANDIN_API int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
STANDIN_API int cuGetErrorName(int code, const char** name) {
  static const std::map<int, const char*> names{
      {kNotReady, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},    {710, "CUDA_ERROR_ASSERT"},
      {719, "CUDA_ERROR_LAUNCH_FAILED"},   {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"}, {999, "CUDA_ERROR_UNKNOWN"}};
  const auto known = names.find(code);
  *name = known != names.end() ? known->second : "CUDA_ERROR";
  return 0;
}
STANDIN_API int cuGetErrorString(int, const char** text) {
  *text = "reported by the stand-in";
  return 0;
}
STANDIN_API int cuDeviceGetCount(int* count) {
  *count = device_count();
  return 0;
}
STANDIN_API int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < device_count() ? 0 : 101;
}
STANDIN_API int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "stand-in GPU", static_cast<std::size_t>(size));
  return 0;
}
STANDIN_API int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return 0;
}
STANDIN_API int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 4;
  return 0;
}
STANDIN_API int cuDeviceGetPCIBusId(char* id, int size, int device) {
  const std::string text = "0000:0" + std::to_string(device) + ":00.0";
  std::strncpy(id, text.c_str(), static_cast<std::size_t>(size));
  return 0;
}
STANDIN_API int cuDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return 0;
}
STANDIN_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = at(static_cast<std::uint64_t>(device) + 1);
  return state().fault;
}
STANDIN_API int cuDevicePrimaryCtxRelease_v2(int) {
  return 0;
}
STANDIN_API int cuCtxPushCurrent_v2(void* context) {
  contexts.push_back(static_cast<int>(reinterpret_cast<std::uint64_t>(context)) - 1);
  return 0;
}
STANDIN_API int cuCtxPopCurrent_v2(void** context) {
  *context = at(static_cast<std::uint64_t>(current_device()) + 1);
  contexts.pop_back();
  return 0;
}
STANDIN_API int cuCtxSynchronize() {
  await_device(current_device());
  return state().fault;
}
STANDIN_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const int ordinal = standin::current_device();
  const std::lock_guard lock(standin::state().mutex);
  *total = standin::device_bytes();
  *free = *total - std::min(*total, standin::held_here(ordinal) + standin::held_by_others(ordinal));
  return 0;
}
STANDIN_API int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  const char* largest = std::getenv("ET_STANDIN_LARGEST_PIECE");
  if (largest != nullptr && bytes > std::strtoull(largest, nullptr, 10)) return kOutOfMemory;
  return allocate(reinterpret_cast<void**>(address), bytes, true);
}
STANDIN_API int cuMemFree_v2(std::uint64_t address) {
  return release(at(address));
}
STANDIN_API int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return allocate(memory, bytes, false);
}
STANDIN_API int cuMemFreeHost(void* memory) {
  return release(memory);
}
STANDIN_API int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
  return put_copy(from, stream, [=] { std::memcpy(at(to), from, bytes); });
}
STANDIN_API int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  return put_copy(to, stream, [=] { std::memcpy(to, at(from), bytes); });
}
STANDIN_API int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
  return put(stream, [=] {
    const auto begin = Clock::now();
    std::memmove(at(to), at(from), bytes);
    standin_cuda_take_time("ET_STANDIN_COPY_US", begin);
  });
}
STANDIN_API int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void* stream) {
  return put(stream, [=] { std::memset(at(to), value, bytes); });
}
STANDIN_API int cuPointerGetAttribute(void* value, int attribute, std::uint64_t address) {
  const std::lock_guard lock(state().mutex);
  for (const auto& [memory, piece] : state().memory) {
    const auto begin = reinterpret_cast<std::uint64_t>(memory);
    if (address < begin || address >= begin + piece.bytes) continue;
    const int answer = attribute == 2 ? 2 : piece.ordinal;
    std::memcpy(value, &answer, sizeof answer);
    return 0;
  }
  return kInvalidValue;
}
STANDIN_API int cuStreamCreate(void** stream, unsigned) {
  if (const int fault = state().fault) return fault;
  auto made = std::make_shared<Stream>();
  *stream = made.get();
  const std::lock_guard lock(state().mutex);
  state().streams.emplace(std::move(made), current_device());
  return 0;
}
STANDIN_API int cuStreamDestroy_v2(void* handle) {
  std::shared_ptr<Stream> stream = find(handle);
  if (!stream) return kInvalidHandle;
  const std::lock_guard lock(state().mutex);
  state().streams.erase(stream);
  // Its operations continue without the caller, as on a device.
  std::thread([last = std::move(stream)]() mutable { last.reset(); }).detach();
  return 0;
}
STANDIN_API int cuStreamQuery(void* handle) {
  if (const int fault = state().fault) return fault;
  const auto stream = find(handle);
  return !stream ? kInvalidHandle : stream->idle() ? 0 : kNotReady;
}
STANDIN_API int cuStreamIsCapturing(void*, int* status) {
  *status = state().capturing;
  return state().fault;
}
STANDIN_API int cuStreamSynchronize(void* handle) {
  if (const int fault = state().fault) return fault;
  const auto stream = find(handle);
  if (!stream) return kInvalidHandle;
  stream->drain();
  return state().fault;
}
STANDIN_API int cuEventCreate(void** event, unsigned) {
  if (const int fault = state().fault) return fault;
  *event = new Event;
  ++state().events;
  return 0;
}
STANDIN_API int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  --state().events;
  return 0;
}
STANDIN_API int cuEventRecord(void* handle, void* stream) {
  auto& event = *static_cast<Event*>(handle);
  const auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(event.mutex);
    event.mark = mark;
  }
  const auto held = find(stream);
  if (state().fault != 0 || !held || !held->idle()) return put(stream, [mark] { reach(*mark); });
  reach(*mark);  // the time at which a thread is scheduled has no meaning for a device
  return 0;
}
namespace {
std::shared_ptr<Mark> mark_of(void* handle) {
  auto& event = *static_cast<Event*>(handle);
  const std::lock_guard lock(event.mutex);
  return event.mark;
}
}  // namespace
STANDIN_API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const auto mark = mark_of(event);
  if (!mark) return 0;
  return put(stream, [mark] { wait_for(*mark); });
}
STANDIN_API int cuEventQuery(void* event) {
  ++state().queries;
  if (const int fault = state().fault) return fault;
  const auto mark = mark_of(event);
  return !mark || is_reached(*mark) ? 0 : kNotReady;
}
STANDIN_API int cuEventSynchronize(void* event) {
  if (const int fault = state().fault) return fault;
  if (const auto mark = mark_of(event)) wait_for(*mark);
  return state().fault;
}
STANDIN_API int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  const auto first = mark_of(from);
  const auto second = mark_of(to);
  if (!first || !second) return kInvalidHandle;
  if (!is_reached(*first) || !is_reached(*second)) return kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(second->time - first->time).count();
  return 0;
}
STANDIN_API int cuModuleLoadData(void** module, const void* image) {
  *module = const_cast<void*>(image);
  return state().fault;
}
STANDIN_API int cuModuleUnload(void*) {
  return 0;
}
STANDIN_API int cuModuleGetFunction(void** function, void*, const char* name) {
  const auto found = kernels().find(name);
  if (found == kernels().end()) return kNotFound;
  standin_cuda_load(&found->second);
  *function = &found->second;
  return 0;
}
STANDIN_API int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void* stream, void** arguments, void**) {
  const auto& kernel = *static_cast<const Kernel*>(function);
  std::vector<std::vector<char>> copies;
  for (std::size_t i = 0; i < kernel.parameters; ++i) {
    const auto* bytes = static_cast<const char*>(arguments[i]);
    copies.emplace_back(bytes, bytes + kernel.sizes[i]);
  }
  return put(stream, [&kernel, blocks, copies = std::move(copies)]() mutable {
    std::vector<void*> pointers;
    for (auto& copy : copies) pointers.push_back(copy.data());
    kernel.run(blocks, pointers.data());
  });
}
