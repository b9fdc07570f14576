// A device of torch's kind "PrivateUse1" whose memory is the host's, locked while no operator computes, and whose
// copies in streams of their own are made as late as they may be.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>
#include <torch/library.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <deque>
#include <functional>

#include <map>
#include <mutex>

namespace {

constexpr int kDevices = 4;
constexpr auto kType = c10::DeviceType::PrivateUse1;

// --- Memory: what torch has of it are addresses that nobody may touch

class Arena {
 public:
  static Arena& get() {
    static auto* arena = new Arena;
    return *arena;
  }
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = std::max<std::size_t>(1, (bytes + 255) / 256) * 256;
    auto& pieces = free_[size];
    if (!pieces.empty()) {
      void* piece = pieces.back();
      pieces.pop_back();
      return piece;
    }
    TORCH_CHECK(used_ + size <= kBytes, "the device has no memory left");
    void* piece = base_ + used_;
    used_ += size;
    sizes_[piece] = size;
    return piece;
  }
  void give_back(void* piece) {
    const std::lock_guard lock(mutex_);
    free_[sizes_.at(piece)].push_back(piece);
  }
  // The same memory where an operator may touch it.
  void* opened(const void* piece) const {
    return piece == nullptr ? nullptr : opened_ + (static_cast<const char*>(piece) - base_);
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 30;
  Arena() {
    const int file = ::memfd_create("device", MFD_CLOEXEC);
    TORCH_CHECK(file >= 0 && ::ftruncate(file, kBytes) == 0, "no memory for a device");
    base_ = static_cast<char*>(::mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED, file, 0));
    opened_ = static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
  }
  std::mutex mutex_;
  char* base_ = nullptr;
  char* opened_ = nullptr;
  std::size_t used_ = 0;
  std::map<std::size_t, std::vector<void*>> free_;
  std::map<void*, std::size_t> sizes_;
};

thread_local c10::DeviceIndex current_device = 0;
bool is_chosen = false;  // by the program

void give_back(void* piece) {
  if (piece != nullptr) Arena::get().give_back(piece);
}

void forget_writes(const void* data);

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : Arena::get().take(bytes);
    forget_writes(data);
    return {data, data, &give_back, c10::Device(kType, current_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(Arena::get().opened(to), Arena::get().opened(from), bytes);
  }
};
Allocator allocator;
REGISTER_ALLOCATOR(kType, &allocator);

// --- Streams: what is queued in one is done when somebody waits for it

// What has happened before something: of each stream, so many operators.
using Clock = std::map<c10::StreamId, std::uint64_t>;

struct Queue {
  std::deque<std::function<void()>> tasks;
  std::uint64_t added = 0, done = 0;
  Clock before;  // its next operator
};
struct Mark {
  c10::StreamId stream = 0;
  std::uint64_t until = 0;
  Clock before;
};
struct Write {
  c10::StreamId stream = 0;
  std::uint64_t number = 0;
};
std::recursive_mutex streams_mutex;
std::map<c10::StreamId, Queue> queues;
c10::StreamId last_stream = 0;
thread_local c10::StreamId current_stream = 0;

// What a task frees may need the interpreter, so nobody waits for the streams who holds it.
class Locked {
 public:
  Locked() {
    if (PyGILState_Check() != 0) released_.emplace();
    streams_mutex.lock();
  }
  ~Locked() { streams_mutex.unlock(); }
  Locked(const Locked&) = delete;

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

// Copies are checked to read only what was written before them, by the order of streams, events and the host's waits.
thread_local Clock host_knows;
std::map<const void*, Write> last_writes;  // by the memory of a storage

void learn(Clock& clock, const Clock& other) {
  for (const auto& [stream, number] : other) clock[stream] = std::max(clock[stream], number);
}

void forget_writes(const void* data) {
  const Locked lock;
  last_writes.erase(data);
}

// One more operator of the current stream.
Write begin_operator() {
  auto& before = queues[current_stream].before;
  learn(before, host_knows);
  return {current_stream, ++before[current_stream]};
}

void note_write(const at::Tensor& tensor, const Write& write) {
  if (tensor.defined() && tensor.is_privateuseone()) last_writes[tensor.storage().data()] = write;
}

void check_read(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) return;
  const auto found = last_writes.find(tensor.storage().data());
  if (found == last_writes.end()) return;
  const auto& [stream, number] = found->second;
  TORCH_CHECK(queues[current_stream].before[stream] >= number, "a copy in stream ", current_stream,
              " reads what stream ", stream, " may not have written yet");
}

void run_until(c10::StreamId stream, std::uint64_t until) {
  const Locked lock;
  auto& queue = queues[stream];
  while (queue.done < until && !queue.tasks.empty()) {
    auto task = std::move(queue.tasks.front());
    queue.tasks.pop_front();
    task();
    ++queue.done;
  }
}
thread_local bool in_operator = false;  // that computes on the host, by copies of its own

void run_all(c10::StreamId stream) {
  const Locked lock;
  run_until(stream, queues[stream].added);
}

// The host waits for all of the stream.
void drain(c10::StreamId stream) {
  const Locked lock;
  run_all(stream);
  if (!in_operator) learn(host_knows, queues[stream].before);
}
void queue_up(std::function<void()> task) {
  const Locked lock;
  if (current_stream == 0) return task();
  auto& queue = queues[current_stream];
  queue.tasks.push_back(std::move(task));
  ++queue.added;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    current_device = device.index();
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    const Locked lock;
    return c10::Stream(c10::Stream::UNSAFE, device, ++last_stream);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto before = current_stream;
    current_stream = stream.id();
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), before);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Mark*>(event); }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    const Locked lock;
    if (*event == nullptr) *event = new Mark;
    auto& queue = queues[stream.id()];
    *static_cast<Mark*>(*event) = {stream.id(), queue.added, queue.before};
  }
  void block(void* event, const c10::Stream& stream) const override {
    const Locked lock;
    const Mark mark = *static_cast<Mark*>(event);
    auto& queue = queues[stream.id()];
    learn(queue.before, mark.before);
    if (stream.id() == 0) return run_until(mark.stream, mark.until);
    queue.tasks.push_back([mark] { run_until(mark.stream, mark.until); });
    ++queue.added;
  }
  bool queryEvent(void* event) const override {
    const Locked lock;
    const Mark mark = *static_cast<Mark*>(event);
    if (queues[mark.stream].done < mark.until) return false;
    learn(host_knows, mark.before);
    return true;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const c10::Stream& stream) const override {
    const Locked lock;
    return queues[stream.id()].tasks.empty();
  }
  void synchronizeStream(const c10::Stream& stream) const override { drain(stream.id()); }
  void synchronizeEvent(void* event) const override {
    const Mark mark = *static_cast<Mark*>(event);
    run_until(mark.stream, mark.until);
    learn(host_knows, mark.before);
  }
  void synchronizeDevice(const c10::DeviceIndex) const override { drain_all(); }
  static void drain_all() {
    const Locked lock;
    for (auto& [stream, queue] : queues) drain(stream);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Random numbers of the device's own.
at::Generator& generator() {
  static at::Generator own = at::detail::createCPUGenerator();
  return own;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { current_device = device; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return std::exchange(current_device, device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return std::exchange(current_device, device);
  }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::DeviceType::CPU); }
  at::Device getDeviceFromPtr(void*) const override { return {kType, current_device}; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return generator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto fresh = allocator.allocate(bytes);
    if (bytes != 0 && storage.nbytes() != 0) {
      std::memcpy(Arena::get().opened(fresh.get()), Arena::get().opened(storage.data()),
                  std::min(bytes, storage.nbytes()));
    }
    storage.set_data_ptr(std::move(fresh));
    storage.set_nbytes(bytes);
  }
};

// --- Operators

at::Tensor empty_memory_format(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                               std::optional<at::Device> device, std::optional<bool>,
                               std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_strided_generic(size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

// A view of the same memory as a host tensor.
at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) return tensor;
  at::Tensor found = at::from_blob(Arena::get().opened(tensor.storage().data()),
                                   {static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size())},
                                   tensor.options().device(at::kCPU))
                         .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj()) found = found.conj();
  return tensor.is_neg() ? found._neg_view() : found;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  const auto task = [self, target] {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard autograd(c10::autograd_dispatch_keyset);
    if (target.numel() != 0) on_host(target).copy_(on_host(self));
  };
  if (!in_operator) {
    const Locked lock;
    const Write write = begin_operator();
    check_read(self);
    if (self.is_privateuseone())
      note_write(target, write);  // state arrives while a pass that counts for nothing reads it
  }
  queue_up(task);
  const bool is_within = self.is_privateuseone() && target.is_privateuseone();  // for which no host waits
  if (is_within) run_all(current_stream);
  if (!non_blocking && !is_within) drain(current_stream);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  at::native::resize_(target, self.sizes());
  return copy_from(self, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  drain(current_stream);
  return on_host(self).item();
}

// Whatever an operator returns or may write.
void note_writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t begin, bool are_results) {
  const Write write = begin_operator();
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = begin; i < stack.size(); ++i) {
    const auto* alias = are_results ? nullptr : arguments[i - begin].alias_info();
    if (!are_results && (alias == nullptr || !alias->isWrite())) continue;
    if (stack[i].isTensor()) note_write(stack[i].toTensor(), write);
    if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) note_write(tensor, write);
    }
  }
}

at::Tensor& set_source(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                       c10::IntArrayRef stride) {
  return at::cpu::set_(self, source, offset, size, stride);
}

at::Tensor& set_whole(at::Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.element_size());
  return at::cpu::set_(self, std::move(source), 0, {count}, {1});
}

// It has no fused attention.
int64_t fused_sdp_choice(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                         double, bool, std::optional<double>, bool) {
  return static_cast<int64_t>(sdp::SDPBackend::math);
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  in_operator = true;
  run_all(current_stream);
  const auto& arguments = op.schema().arguments();
  const std::size_t begin = stack->size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "generator" && (*stack)[begin + i].isNone()) (*stack)[begin + i] = generator();
  }
  {
    const Locked lock;
    note_writes(op, *stack, begin, false);
  }
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    in_operator = false;
    throw;
  }
  in_operator = false;
  const Locked lock;
  note_writes(op, *stack, begin, true);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("resize_", TORCH_FN(at::native::resize_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_source));
  m.impl("set_.source_Storage", TORCH_FN(set_whole));
  m.impl("_fused_sdp_choice", TORCH_FN(fused_sdp_choice));
}
// Of a conjugate, which the copy makes.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// --- Sums among processes, by way of the host

using Work = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

at::Tensor to_host(const at::Tensor& tensor) {
  return tensor.cpu();
}
Tensors to_host(const Tensors& tensors) {
  Tensors found;
  for (const auto& tensor : tensors) found.push_back(tensor.cpu());
  return found;
}
std::vector<Tensors> to_host(const std::vector<Tensors>& lists) {
  std::vector<Tensors> found;
  for (const auto& list : lists) found.push_back(to_host(list));
  return found;
}
void take_back(at::Tensor& tensor, const at::Tensor& from) {
  tensor.copy_(from);
}
template <typename Values>
void take_back(std::vector<Values>& values, const std::vector<Values>& from) {
  for (std::size_t i = 0; i < values.size(); ++i) take_back(values[i], from[i]);
}

class Group final : public c10d::Backend {
 public:
  explicit Group(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}
  const std::string getBackendName() const override { return "standin"; }
  Work broadcast(Tensors& values, const c10d::BroadcastOptions& options) override {
    return in_place(values, [&](Tensors& host) { return inner_->broadcast(host, options); });
  }
  Work allreduce(Tensors& values, const c10d::AllreduceOptions& options) override {
    return in_place(values, [&](Tensors& host) { return inner_->allreduce(host, options); });
  }
  Work reduce(Tensors& values, const c10d::ReduceOptions& options) override {
    return in_place(values, [&](Tensors& host) { return inner_->reduce(host, options); });
  }
  Work allgather(std::vector<Tensors>& into, Tensors& values, const c10d::AllgatherOptions& options) override {
    auto own = to_host(values);
    return in_place(into, [&](std::vector<Tensors>& host) { return inner_->allgather(host, own, options); });
  }
  Work gather(std::vector<Tensors>& into, Tensors& values, const c10d::GatherOptions& options) override {
    auto own = to_host(values);
    return in_place(into, [&](std::vector<Tensors>& host) { return inner_->gather(host, own, options); });
  }
  Work scatter(Tensors& into, std::vector<Tensors>& values, const c10d::ScatterOptions& options) override {
    auto own = to_host(values);
    return in_place(into, [&](Tensors& host) { return inner_->scatter(host, own, options); });
  }
  Work _allgather_base(at::Tensor& into, at::Tensor& value, const c10d::AllgatherOptions& options) override {
    auto own = to_host(value);
    return in_place(into, [&](at::Tensor& host) { return inner_->_allgather_base(host, own, options); });
  }
  Work allgather_into_tensor_coalesced(Tensors& into, Tensors& values, const c10d::AllgatherOptions& options) override {
    auto own = to_host(values);
    return in_place(into, [&](Tensors& host) { return inner_->allgather_into_tensor_coalesced(host, own, options); });
  }
  Work _reduce_scatter_base(at::Tensor& into, at::Tensor& value, const c10d::ReduceScatterOptions& options) override {
    auto own = to_host(value);
    return in_place(into, [&](at::Tensor& host) { return inner_->_reduce_scatter_base(host, own, options); });
  }
  Work reduce_scatter_tensor_coalesced(Tensors& into, Tensors& values,
                                       const c10d::ReduceScatterOptions& options) override {
    Work last;
    for (std::size_t i = 0; i < into.size(); ++i) last = _reduce_scatter_base(into[i], values[i], options);
    return last;
  }
  Work alltoall_base(at::Tensor& into, at::Tensor& value, std::vector<int64_t>& output, std::vector<int64_t>& input,
                     const c10d::AllToAllOptions& options) override {
    auto own = to_host(value);
    return in_place(into, [&](at::Tensor& host) { return inner_->alltoall_base(host, own, output, input, options); });
  }
  Work barrier(const c10d::BarrierOptions& options) override { return inner_->barrier(options); }

 private:
  template <typename Values, typename Do>
  Work in_place(Values& values, const Do& call) {
    auto host = to_host(values);
    auto work = call(host);
    work->wait();
    take_back(values, host);
    return work;
  }
  const c10::intrusive_ptr<c10d::Backend> inner_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  m.def("device_count", [] { return kDevices; });
  m.def("current_device", [] { return int(current_device); });
  m.def("set_device", [](int device) {
    current_device = static_cast<c10::DeviceIndex>(device);
    is_chosen = true;
  });
  m.def("is_chosen", [] { return is_chosen; });
  m.def("seed", [](std::uint64_t seed) { generator().set_current_seed(seed); });
  m.def("make_group", [](c10::intrusive_ptr<c10d::Backend> inner) {
    return c10::static_intrusive_pointer_cast<c10d::Backend>(c10::make_intrusive<Group>(std::move(inner)));
  });
  m.def("synchronize", [] { Guard::drain_all(); });
}
