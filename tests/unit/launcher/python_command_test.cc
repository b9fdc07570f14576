// Which commands run a Python program that a fork server of the same interpreter can run in their place.
#include "launcher/python_command.h"

#include <doctest/doctest.h>

using elastictrain::launcher::python_command;
using Words = std::vector<std::string>;

TEST_CASE("a script or a module of an interpreter is told from the interpreter's own options") {
  struct Example {
    Words argv, interpreter, program;
  };
  const Example examples[] = {
      {{"python", "train.py", "-c", "x"}, {"python"}, {"train.py", "-c", "x"}},
      {{"/opt/venv/bin/python3.11", "-u", "-X", "dev", "-Werror", "-OO", "a.py"},
       {"/opt/venv/bin/python3.11", "-u", "-X", "dev", "-Werror", "-OO"},
       {"a.py"}},
      {{"python3", "-W", "-m", "-m", "pkg.train", "--lr", "1"},
       {"python3", "-W", "-m"},
       {"-m", "pkg.train", "--lr", "1"}},
  };
  for (const Example& example : examples) {
    const auto found = python_command(example.argv);
    REQUIRE(found.has_value());
    CHECK(found->interpreter == example.interpreter);
    CHECK(found->program == example.program);
  }
}

TEST_CASE("commands that are no interpreter's, and programs that are no file or module, are not taken") {
  const Words others[] = {{},
                          {"python"},
                          {"bash", "train.py"},
                          {"pythonw", "train.py"},
                          {"numactl", "python", "train.py"},
                          {"python", "-c", "print(1)"},
                          {"python", "-uc", "print(1)"},
                          {"python", "-um", "module"},
                          {"python", "-"},
                          {"python", "--version"},
                          {"python", "-m"},
                          {"python", "-X"},
                          {"python", "-u"}};
  for (const Words& argv : others) CHECK_FALSE(python_command(argv).has_value());
}
