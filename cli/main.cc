#include "cli/run_cli.h"

int main(int argc, char** argv) {
  return elastictrain::cli::run_cli(argc, argv);
}
