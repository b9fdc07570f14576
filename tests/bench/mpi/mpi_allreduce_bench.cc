// At each rank of an MPI launch: our all-reduce and MPI_Allreduce in turn, and what going over to the next generation
// costs. mpi_allreduce_bench [ROUNDS]; rank 0 prints one line of JSON for each size.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "train/comm/mpi/mpi_abi.h"
#include "train/comm/mpi/mpi_communicator.h"

namespace {

using namespace elastictrain;
using namespace elastictrain::comm;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {4 << 10, 1 << 20, 25 << 20};  // bytes

template <class Handle>
std::function<void(float*, int)> bind(void* in_place, Handle type, Handle sum, Handle world) {
  using Function = int (*)(const void*, void*, int, Handle, Handle, Handle);
  const auto call = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "MPI_Allreduce"));
  return [=](float* data, int count) { call(in_place, data, count, type, sum, world); };
}

// The values of mpi.h that only this needs.
std::function<void(float*, int)> bare_all_reduce(const MpiLibrary& library) {
  const auto symbol = [](const char* name) { return ::dlsym(RTLD_DEFAULT, name); };
  if (!library.is_open_mpi()) {
    constexpr MpichHandle kFloat = 0x4c00040a;
    constexpr MpichHandle kSum = 0x58000003;
    return bind<MpichHandle>(reinterpret_cast<void*>(-1), kFloat, kSum, kMpichConstants.comm_world);
  }
  return bind<OpenMpiHandle>(reinterpret_cast<void*>(1), symbol("ompi_mpi_float"), symbol("ompi_mpi_op_sum"),
                             symbol(kOpenMpiCommWorld));
}

double microseconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(MpiWorld& world) : world_(world), bare_(bare_all_reduce(world.library())), ours_(next()) {}

  void run(std::size_t bytes, int rounds) {
    std::vector<float> data(bytes / sizeof(float));
    const int repetitions = bytes < (64 << 10) ? 200 : bytes < (4 << 20) ? 20 : 3;
    std::vector<double> ours;
    std::vector<double> bare;
    std::vector<double> swaps;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(per_call(repetitions, [&] { sum(data); }));
      bare.push_back(per_call(repetitions, [&] { bare_(data.data(), static_cast<int>(data.size())); }));
      auto built = next();
      swaps.push_back(microseconds_of([&] {
        ours_ = std::move(built);
        sum(data);
      }));
    }
    if (world_.rank() != 0) return;
    std::printf(
        "{\"ranks\": %u, \"bytes\": %zu, \"ours_us\": %.2f, \"bare_us\": %.2f, \"first_after_swap_us\": %.2f}\n",
        world_.size(), bytes, median(ours), median(bare), median(swaps));
    std::fflush(stdout);
  }

 private:
  std::unique_ptr<MpiCommunicator> next() {
    BuildSpec spec{.generation = ++generation_, .rank = world_.rank()};
    spec.peers.resize(world_.size(), {.host_key = "this machine"});
    std::vector<std::uint32_t> members(world_.size());
    std::iota(members.begin(), members.end(), 0);
    return std::make_unique<MpiCommunicator>(spec, world_, members);
  }

  void sum(std::vector<float>& data) {
    if (auto status = ours_->all_reduce(data, {}, nullptr); !status) panic(status.error().message.c_str());
  }

  double per_call(int repetitions, const std::function<void()>& work) {
    if (!ours_->barrier()) panic("the ranks do not meet");
    const double all = microseconds_of([&] {
      for (int i = 0; i < repetitions; ++i) work();
    });
    return all / repetitions;
  }

  MpiWorld& world_;
  std::function<void(float*, int)> bare_;
  Generation generation_ = 0;
  std::unique_ptr<MpiCommunicator> ours_;
};

}  // namespace

int main(int argc, char** argv) {
  constexpr std::chrono::seconds kPatience{60};
  auto world = MpiWorld::join(kPatience);
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().message.c_str());
    return 69;
  }
  {
    Bench bench(**world);
    for (const auto bytes : kSizes) bench.run(bytes, argc > 1 ? std::atoi(argv[1]) : 7);
  }
  return (*world)->leave(kPatience) ? 0 : 1;
}
