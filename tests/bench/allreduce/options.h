// Purpose: the command line shared by all programs of this benchmark.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include "bench_loop.h"

namespace elastictrain::bench {

struct Options {
  int ranks = 2;
  bool tcp_only = false;
  int hosts = 1;  // that the communicator spreads the ranks over
  std::string algorithm = "auto";
  std::string topology = "auto";
  std::string encryption = "none";
  LoopOptions loop;
};

// --ranks N --hosts N --transport auto|tcp --algorithm NAME --topology NAME --encryption NAME --sizes a,b,c
// --repetitions N --round-seconds S. Ends the program on anything else.
inline Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--ranks") {
      options.ranks = std::stoi(value);
    } else if (name == "--hosts") {
      options.hosts = std::stoi(value);
    } else if (name == "--topology") {
      options.topology = value;
    } else if (name == "--encryption") {
      options.encryption = value;
    } else if (name == "--transport") {
      options.tcp_only = value == "tcp";
    } else if (name == "--algorithm") {
      options.algorithm = value;
    } else if (name == "--sizes") {
      options.loop.sizes_bytes = parse_sizes(value);
    } else if (name == "--repetitions") {
      options.loop.repetitions = std::stoi(value);
    } else if (name == "--round-seconds") {
      options.loop.round_seconds = std::stod(value);
    } else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      std::exit(2);
    }
  }
  return options;
}

}  // namespace elastictrain::bench
