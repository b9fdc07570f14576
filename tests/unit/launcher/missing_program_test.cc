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
  const auto homeless = find_missing_program("tool", environment, folder.path + "/none");
  REQUIRE(homeless);
  CHECK(homeless->exit_status == 0);
  CHECK(homeless->text ==
        "the directory in which it is to start, " + folder.path + "/none, does not exist; choose another: --chdir DIR");
  CHECK(contains(find_missing_program("tool", environment, folder.path + "/tool")->text, "is not a directory"));
}

TEST_CASE("a script whose interpreter is not there is told with the interpreter's name") {
  const test::TemporaryDirectory folder;
  const std::vector<std::string> environment = {"PATH=/nothing:" + folder.path};
  const auto look = [&](const std::string& first_line) {
    folder.write("job", first_line + "\nexit 0\n");
    std::filesystem::permissions(folder.path + "/job", std::filesystem::perms::owner_all);
    return find_missing_program("job", environment, folder.path);
  };
  CHECK(!look("#!/bin/sh"));
  CHECK(!look("#! /bin/sh -e  "));
  CHECK(!look("no script at all"));
  CHECK(!look("#!"));
  CHECK(!look("#!/usr/bin/env job"));
  CHECK(!look("#!/usr/bin/env -S no-such-interpreter"));  // what env does with its options is its own matter
  CHECK(!look("#!/" + std::string(300, 'x')));
  const auto gone = look("#!/no/such/python3 -u");
  REQUIRE(gone);
  CHECK(gone->exit_status == 127);
  CHECK(gone->text == "job asks for the interpreter /no/such/python3 in its first line, which does not exist");
  REQUIRE(look("#!/etc/passwd"));
  CHECK(look("#!/etc/passwd")->exit_status == 126);
  const auto unknown = look("#!/usr/bin/env no-such-interpreter");
  REQUIRE(unknown);
  CHECK(unknown->exit_status == 127);
  CHECK(contains(unknown->text, "asks for the interpreter no-such-interpreter in its first line, which is not found"));
  REQUIRE(look("#!/bin/sh\r"));
  CHECK(contains(look("#!/bin/sh\r")->text, "sed -i 's/\\r$//' job"));
}

TEST_CASE("the interpreter of a virtual environment that is not on this host is told as such") {
  const test::TemporaryDirectory folder;
  std::filesystem::create_symlink("/no/such/python3.99", folder.path + "/python3");
  const auto gone = find_missing_program("./python3", {}, folder.path);
  REQUIRE(gone);
  CHECK(gone->exit_status == 127);
  CHECK(gone->text == "./python3 is a link to /no/such/python3.99, which does not exist");
}

TEST_CASE("an empty folder of PATH is the directory in which the program starts") {
  const test::TemporaryDirectory folder;
  folder.write_script("tool", "true");
  CHECK(!find_missing_program("tool", {"PATH=/nothing:"}, folder.path));
  CHECK(!find_missing_program("tool", {"PATH=:/nothing"}, folder.path));
  CHECK(find_missing_program("tool", {"PATH=/nothing"}, folder.path));
}

TEST_CASE("without a PATH the usual folders are searched") {
  CHECK(!find_missing_program("sh", {}, ""));
  CHECK(find_missing_program("no-such-program", {}, "")->text ==
        "no-such-program is not found in PATH (/bin:/usr/bin)");
}
