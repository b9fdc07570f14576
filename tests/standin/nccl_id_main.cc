// A program that knows one command: nccl-id COUNT.
#include <cstdlib>
#include <string>

#include "train/comm/nccl/unique_id_helper.h"

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "nccl-id") return 64;
  return elastictrain::comm::run_unique_id_helper(static_cast<std::size_t>(std::atoi(argv[2])));
}
