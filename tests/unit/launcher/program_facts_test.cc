#include "launcher/agent/host_facts.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

using namespace elastictrain;
using namespace elastictrain::launcher;
using elastictrain::test::contains;

TEST_CASE("a program, its script and its files are looked for where a worker would") {
  const test::TemporaryDirectory folder;
  folder.write("train.py", "print(1)\n");
  folder.write_script("python3", "true");
  const std::vector<std::string> environment = {"PATH=" + folder.path};
  const auto look = [&](const std::vector<std::string>& argv, const std::vector<std::string>& files = {}) {
    return program_facts(argv, environment, folder.path, files);
  };
  const ProgramFacts good = look({"python3", "-u", "train.py", "absent.py"}, {"train.py"});
  CHECK(good.problem.empty());
  CHECK(good.missing_file.empty());
  CHECK(good.interpreter == std::filesystem::canonical(folder.path + "/python3").string());

  const ProgramFacts absent = look({"./absent"});
  CHECK(absent.exit_status == 127);
  CHECK(absent.problem == "./absent does not exist in " + folder.path);
  CHECK(look({"python3", "absent.py"}).missing_file ==
        "absent.py in " + folder.path + " cannot be read: No such file or directory");
  CHECK(look({"python3", "-m", "absent"}).missing_file.empty());
  CHECK(look({"python3", "-c", "absent"}).missing_file.empty());
  CHECK(contains(look({"@self", "worker"}, {"train.py", "data.csv"}).missing_file, "data.csv in " + folder.path));
  CHECK(look({"@self", "worker"}).interpreter.empty());
  CHECK(look({}).problem.empty());
}

TEST_CASE("the interpreter of a virtual environment is named with the version that it was made for") {
  const test::TemporaryDirectory folder;
  std::filesystem::create_directories(folder.path + "/venv/bin");
  const std::string real = folder.write_script("python3.11", "true");
  std::filesystem::create_symlink(real, folder.path + "/venv/bin/python3");
  folder.write("venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n");
  const ProgramFacts facts = program_facts({"venv/bin/python3", "-m", "train"}, {}, folder.path, {});
  CHECK(facts.interpreter == std::filesystem::canonical(real).string() + ", environment of Python 3.11.2");
}
