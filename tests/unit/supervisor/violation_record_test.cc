// A violated condition ends the process that holds it, with a message, a record in the journal and status 70. In a
// child, because it does.
#include "supervisor/protocol/check.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "supervisor/journal.h"

using namespace elastictrain;

namespace {

struct CheckDirectory {
  CheckDirectory() {
    char name[] = "/tmp/elastictrain-check-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~CheckDirectory() { std::filesystem::remove_all(path); }
  std::string text(const char* file) const {
    std::ifstream stream(path + "/" + file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::string path;
};

// In the child: as a supervisor that finds its state wrong.
[[noreturn]] void violate(const CheckDirectory& directory) {
  if (std::freopen((directory.path + "/stderr").c_str(), "w", stderr) == nullptr) ::_exit(1);
  auto journal =
      elastictrain::Journal::open(directory.path + "/journal.jsonl", [](core::Tell::Level, const std::string&) {});
  static elastictrain::Journal* const recorded = journal->get();
  set_violation_observer([](const char* text) { recorded->write(core::record::InvariantBroken{"check", text}, true); });
  const int workers = 3;
  ET_CHECK(workers == 2, "two workers train");
  ::_exit(0);
}

}  // namespace

TEST_CASE("a violated condition ends the process with a message, a record and status 70") {
  const CheckDirectory directory;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) violate(directory);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kViolationStatus);
  const std::string message = directory.text("stderr");
  CHECK(message.find("must hold: two workers train") != std::string::npos);
  const std::string record = directory.text("journal.jsonl");
  CHECK(record.find("\"event\":\"invariant_broken\"") != std::string::npos);
  CHECK(record.find("two workers train") != std::string::npos);
}
