// Runs at each rank of an MPI launch: our all-reduce and MPI_Allreduce in turn, and the cost of a change to the next
// generation. mpi_allreduce_bench ROUNDS apart|together: the ranks exchange all bytes in MPI's messages, as between
// machines, or share memory, as on one machine. Rank 0 prints one line of JSON for each size.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/contract/comm/mpi/pool.h"
#include "tests/quick_end.h"
#include "train/comm/mpi/mpi_library.h"

namespace {

using namespace elastictrain;
using namespace elastictrain::comm;
using comm::testing::Placement;
using comm::testing::Pool;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {4 << 10, 1 << 20, 25 << 20};  // bytes
constexpr int kFewest = 3;                                      // calls in a round
constexpr double kRoundMicroseconds = 0.5e6;

template <class Handle>
std::function<void(float*, int)> bind(void* in_place, Handle type, Handle sum, Handle world) {
  using Function = int (*)(const void*, void*, int, Handle, Handle, Handle);
  const auto call = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "MPI_Allreduce"));
  return [=](float* data, int count) { call(in_place, data, count, type, sum, world); };
}

// The constants of mpi.h that only this program needs.
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
  Bench(Pool& pool, Placement placement)
      : pool_(pool), placement_(placement), bare_(bare_all_reduce(pool.world().library())), ours_(next()) {}

  void run(std::size_t bytes, int rounds) {
    std::vector<float> data(bytes / sizeof(float));
    const int most = bytes < (64 << 10) ? 200 : bytes < (4 << 20) ? 20 : kFewest;
    const int repetitions = std::min(most, affordable([&] { bare_(data.data(), static_cast<int>(data.size())); }));
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
    if (pool_.rank() != 0) return;
    std::printf(
        "{\"ranks\": %u, \"bytes\": %zu, \"ours_us\": %.2f, \"bare_us\": %.2f, \"first_after_swap_us\": %.2f}\n",
        pool_.size(), bytes, median(ours), median(bare), median(swaps));
    std::fflush(stdout);
  }

 private:
  std::unique_ptr<Communicator> next() { return pool_.build(comm::testing::first_ranks(pool_.size()), placement_); }

  void sum(std::vector<float>& data) {
    if (auto status = ours_->all_reduce(data, {}, nullptr); !status) panic(status.error().message.c_str());
  }

  // As many calls as rank 0 has time for: ranks that spin without a core of their own are slow.
  int affordable(const std::function<void()>& work) {
    int found = std::max(kFewest, static_cast<int>(kRoundMicroseconds / per_call(kFewest, work)));
    if (!ours_->broadcast(std::as_writable_bytes(std::span(&found, 1)), 0)) panic("the ranks do not meet");
    return found;
  }

  double per_call(int repetitions, const std::function<void()>& work) {
    if (!ours_->barrier()) panic("the ranks do not meet");
    const double all = microseconds_of([&] {
      for (int i = 0; i < repetitions; ++i) work();
    });
    return all / repetitions;
  }

  Pool& pool_;
  const Placement placement_;
  std::function<void(float*, int)> bare_;
  std::unique_ptr<Communicator> ours_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s ROUNDS apart|together\n", argv[0]);
    return 64;
  }
  Pool& pool = Pool::here();
  {
    Bench bench(pool, std::string_view(argv[2]) == "apart" ? Placement::kApart : Placement::kOneMachine);
    for (const auto bytes : kSizes) bench.run(bytes, std::atoi(argv[1]));
  }
  // MPI_Finalize of MPICH over UCX's sockets often waits for ever, in any program; everything is printed by now.
  (void)pool.world().leave(std::chrono::seconds(5));
  elastictrain::testing::end_quickly(0);
}
