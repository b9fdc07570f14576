// What is said to whom a request was promised an answer, when a supervisor or a cluster ends because of a broken rule.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands/cluster/cluster.h"
#include "cli/commands/cluster_client.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal.h"
#include "supervisor/run_record.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::cli {
namespace {

using test::contains;

// The directory of a run whose supervisor takes one request and is gone.
struct DyingRun : test::TemporaryDirectory {
  DyingRun() {
    RunRecord record;
    record.run_name = "job";
    REQUIRE(save_run_record(path, record).ok());
    listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (path + "/" + control::kSocketName).copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener, 1) == 0);
  }
  void leave(const std::vector<core::Record>& records) {
    auto journal = Journal::open(path + "/" + control::kJournalName, [](core::Tell::Level, const std::string&) {});
    REQUIRE(journal.ok());
    for (const core::Record& record : records) (*journal)->write(record, true);
  }
  Error ask() {
    std::thread supervisor([this] {
      const int client = ::accept(listener, nullptr, nullptr);
      char request[100];
      (void)::recv(client, request, sizeof request, 0);
      ::close(listener);
      ::close(client);
    });
    const auto answer = ask_run(path, {{"command", "resize"}, {"workers", 3}});
    supervisor.join();
    REQUIRE_FALSE(answer.ok());
    return answer.error();
  }
  int listener = -1;
};

TEST_CASE_FIXTURE(DyingRun, "who broke a rule of the supervisor is told so, and how to take the run over") {
  leave({core::record::InvariantBroken{"UserResize", "no third worker"}});
  const Error error = ask();
  CHECK(contains(error.message, "internal error: no third worker"));
  CHECK(contains(error.message, "the workers train on"));
  CHECK(contains(error.message, "elastictrain run --resume "));
  CHECK(status_of_refusal(error) == kExitInternal);
}

TEST_CASE_FIXTURE(DyingRun, "a rule that an earlier supervisor broke is not why this one has gone") {
  leave({core::record::InvariantBroken{"UserResize", "no third worker"}, core::record::RunResumed{}});
  const Error error = ask();
  CHECK(contains(error.message, "has lost its supervisor"));
  CHECK(contains(error.message, "elastictrain run --resume "));
  CHECK(status_of_refusal(error) == kExitUnavailable);
}

TEST_CASE_FIXTURE(DyingRun, "a run that has ended has lost nothing") {
  RunRecord record;
  record.run_name = "job";
  record.end = RunRecord::End{};
  REQUIRE(save_run_record(path, record).ok());
  CHECK(ask().message == "the run ended before it answered");
}

TEST_CASE_FIXTURE(test::TemporaryDirectory,
                  "a cluster in which a rule is broken ends with 70, and says so to who asked") {
  const std::string place = path + "/lab";
  write("cluster.toml", "name = 'lab'\ndirectory = '" + place + "'\n[hosts]\nlist = ['localhost:1']\n");
  const auto no_job = [](const cluster_core::Cluster& cluster) {
    return cluster.jobs().empty() ? std::nullopt : std::optional<std::string>("there is a job");
  };
  auto status = std::async(std::launch::async, [&] { return run_cluster(path + "/cluster.toml", no_job); });
  const nlohmann::json request = {{"command", "submit"},
                                  {"job",
                                   {{"name", "a"},
                                    {"arguments", {"--", "true"}},
                                    {"working_directory", "/"},
                                    {"min", 1},
                                    {"max", 1},
                                    {"start", 1}}}};
  ClusterAnswer answer;
  for (int tries = 0; tries < 500 && (tries == 0 || answer.status == kExitUnavailable); ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    answer = ask_cluster(place + "/", request);
  }
  CHECK(answer.status == kExitInternal);
  CHECK(contains(answer.text, "internal error: there is a job"));
  CHECK(contains(answer.text, "its runs train on"));
  CHECK(status.get() == kExitInternal);
  CHECK_FALSE(contains(test::read_file(place + "/journal.jsonl"), "submitted"));
}

}  // namespace
}  // namespace elastictrain::cli
