// Every rank of an MPI launch runs all cases, in the same order.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string_view>

#include "tests/contract/comm/mpi/late_ranks.h"
#include "tests/contract/comm/mpi/pool.h"
#include "tests/quick_end.h"

namespace {

bool loses_ranks(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--test-case=lost")) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using elastictrain::comm::testing::Pool;
  const std::string_view story = argc > 1 ? argv[1] : "";
  if (story == "late-ranks") return elastictrain::comm::testing::run_late_ranks();
  if (story == "lost-launcher") return elastictrain::comm::testing::run_lost_launcher();
  Pool& pool = Pool::here();
  if (pool.rank() == 0) std::printf("%s, %u ranks\n", pool.world().library().version().c_str(), pool.size());
  doctest::Context context(argc, argv);
  context.setOption("minimal", true);
  const int failed = context.run();
  if (failed == 0) std::printf("rank %u of %u: passed\n", pool.rank(), pool.size());
  std::fflush(nullptr);
  // MPICH's launcher kills the other ranks, and loses what they have not printed, when the first one ends without
  // MPI_Finalize.
  if (failed == 0 && !loses_ranks(argc, argv)) pool.meet();
  // The cases broke generations, so no rank knows which others are left.
  const auto left = pool.world().leave(std::chrono::seconds(60));
  const bool in_order = left || left.error().code == elastictrain::ErrorCode::kPeerLost;
  elastictrain::testing::end_quickly(failed == 0 && in_order ? 0 : 1);
}
