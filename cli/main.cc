#include "cli/app.h"

int main(int argc, char** argv) {
  return elastictrain::cli::run_cli(argc, argv);
}
