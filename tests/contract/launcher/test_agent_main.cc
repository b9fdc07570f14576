// The part of the elastictrain command line that launchers use.
#include <cstdio>
#include <string_view>

#include "launcher/agent/agent.h"
#include "launcher/agent_program.h"

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "--build-id") return std::printf("%s\n", elastictrain::launcher::build_id().c_str()) > 0 ? 0 : 1;
  const std::string_view option = argc > 2 ? argv[2] : "";
  const bool in_pool = argc > 3 && option == "--mpi-pool";
  if (command == "agent") {
    return elastictrain::launcher::run_agent({in_pool ? argv[3] : "", option == "--outlive-launch"});
  }
  return 64;
}
