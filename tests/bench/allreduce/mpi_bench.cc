// An MPI library in the common timing loop; built once per library, started by its own mpirun.
#include <mpi.h>

#include "options.h"

int main(int argc, char** argv) {
  using namespace elastictrain::bench;
  MPI_Init(&argc, &argv);
  const auto options = parse_options(argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  run_loop(options.loop, rank, [](float* data, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  MPI_Finalize();
  return 0;
}
