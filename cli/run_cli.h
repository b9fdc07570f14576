// Purpose: the whole program behind main(), without the parser's headers.
#pragma once

namespace elastictrain::cli {

// The process's exit status (cli/commands/exit_code.h, or that of the first failing worker).
int run_cli(int argc, char** argv);

}  // namespace elastictrain::cli
