#include "launcher/agent_program.h"

#include "launcher/build_id.h"

namespace elastictrain::launcher {

AgentProgram this_program() {
  return {self_path(), build_id()};
}

}  // namespace elastictrain::launcher
