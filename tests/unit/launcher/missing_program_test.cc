#include "launcher/process/missing_program.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

using namespace elastictrain;
using namespace elastictrain::launcher;
using elastictrain::test::contains;

TEST_CASE("a program that cannot be started is told as a shell tells it, with what to write instead") {
  const test::TemporaryDirectory folder;
  folder.write("train.py", "print(1)\n");
  folder.write_script("tool", "true");
  const std::vector<std::string> environment = {"HOME=/", "PATH=/nothing:" + folder.path};
  const auto look = [&](const std::string& program) { return find_missing_program(program, environment, folder.path); };
  CHECK(!look("tool"));
  CHECK(!look("./tool"));
  CHECK(!look(folder.path + "/tool"));

  const auto absent = look("absent");
  REQUIRE(absent);
  CHECK(absent->exit_status == 127);
  CHECK(absent->text == "absent is not found in PATH (/nothing:" + folder.path + ")");
  const auto script = look("train.py");
  REQUIRE(script);
  CHECK(script->exit_status == 127);
  CHECK(contains(script->text, "is written ./train.py, or start its interpreter: python3 train.py"));
  const auto closed = look("./train.py");
  REQUIRE(closed);
  CHECK(closed->exit_status == 126);
  CHECK(closed->text ==
        "./train.py may not be executed; allow it: chmod +x ./train.py, or start its interpreter: python3 ./train.py");
  const auto nowhere = look("./nowhere");
  REQUIRE(nowhere);
  CHECK(nowhere->exit_status == 127);
  CHECK(nowhere->text == "./nowhere does not exist in " + folder.path);
  REQUIRE(look(folder.path));
  CHECK(look(folder.path)->text == folder.path + " is not a file");
  // That the directory is missing is another mistake.
  CHECK(!find_missing_program("tool", environment, folder.path + "/none"));
}

TEST_CASE("without a PATH the usual folders are searched") {
  CHECK(!find_missing_program("sh", {}, ""));
  CHECK(find_missing_program("no-such-program", {}, "")->text ==
        "no-such-program is not found in PATH (/bin:/usr/bin)");
}
