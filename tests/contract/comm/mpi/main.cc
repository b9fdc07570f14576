// Every rank of an MPI launch runs all cases, in one order.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "tests/contract/comm/mpi/pool.h"

int main(int argc, char** argv) {
  using elastictrain::comm::testing::Pool;
  Pool& pool = Pool::here();
  if (pool.rank() == 0) std::printf("%s, %u ranks\n", pool.world().library().version().c_str(), pool.size());
  doctest::Context context(argc, argv);
  context.setOption("minimal", true);
  const int failed = context.run();
  if (failed == 0) std::printf("rank %u of %u: passed\n", pool.rank(), pool.size());
  std::fflush(nullptr);
  const bool lost_ranks = argc > 1 && std::string_view(argv[1]).starts_with("--test-case=lost");
  // MPI_Finalize waits for the lost ones.
  if (lost_ranks || failed != 0) ::_exit(failed);
  return pool.world().leave() ? 0 : 1;
}
