// Reports of NCCL's RAS service, written down as its source prints them (NCCL 2.28.9, src/ras/client_support.cc,
// rasClientRunInit and rasClientRunComms); the same texts are the corpus of tests/fuzz/ras_fuzz.cc.
#include "launcher/agent/ras_report.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

namespace elastictrain::launcher {
namespace {

using AnswerLines = std::vector<std::string>;

std::string recorded(const std::string& name) {
  std::ifstream file(std::string(ELASTICTRAIN_SOURCE_DIR) + "/tests/fuzz/corpus/ras/" + name);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a job whose ranks have all started the same is reported to wait for the network") {
  const AnswerLines lines = explain_ras_report(recorded("well"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "NCCL 2.28.9+cuda13.0 says:");
  CHECK(lines[1] == "1 communicator of 4 ranks on 2 hosts: running");
  CHECK(lines[2].starts_with("all ranks started the same collectives"));
}

TEST_CASE("a rank that did not call is named, with its process, host and GPU") {
  const AnswerLines lines = explain_ras_report(recorded("behind"));
  REQUIRE(lines.size() == 4);
  CHECK(
      lines[2] ==
      "communicator 0-0 (6b5d7fd14bd3ff8a): 3 ranks started all-reduce 1201; rank 2 (process 4711 on 10.0.0.2, GPU 0) "
      "started all-reduce 1200");
  CHECK(lines[3].starts_with("the others wait for rank 2 (process 4711 on 10.0.0.2, GPU 0): its program"));
}

TEST_CASE("a process that does not answer is reported once as a process and once as a rank") {
  const AnswerLines lines = explain_ras_report(recorded("stopped"));
  REQUIRE(lines.size() == 5);
  CHECK(lines[2] == "1 process does not answer (stopped, or a host that is cut off): process 4711 on 10.0.0.2, GPU 0");
  CHECK(lines[3] ==
        "communicator 0-0 (6b5d7fd14bd3ff8a): no data arrived from rank 2 (process 4711 on 10.0.0.2, GPU 0)");
  CHECK(lines[4] == "2 answers of other processes did not arrive in time");
}

TEST_CASE("dead processes are listed") {
  const AnswerLines lines = explain_ras_report(recorded("dead"));
  REQUIRE(lines.size() == 4);
  CHECK(lines[2] ==
        "2 processes are considered dead: process 4711 on 10.0.0.2, GPU 0; process 4712 on 10.0.0.2, GPU 1,2");
  CHECK(lines[3] == "communicator 0-0 (6b5d7fd14bd3ff8a): no data arrived from ranks 2, 3");
}

TEST_CASE("errors and states are reported by rank") {
  const AnswerLines lines = explain_ras_report(recorded("errors"));
  REQUIRE(lines.size() == 6);
  CHECK(lines[1] == "1 communicator of 4 ranks on 2 hosts: aborting it");
  CHECK(
      lines[2] ==
      "communicator 0-0 (6b5d7fd14bd3ff8a): ranks 0, 1 reported: Remote process error; rank 3 (process 201 on fe80::1, "
      "GPU 1) reported: Unhandled CUDA error");
  CHECK(lines[3] ==
        "communicator 0-0 (6b5d7fd14bd3ff8a): 2 ranks: aborting it; rank 1 (process 101 on 10.0.0.1, GPU 1): running; "
        "rank 2: not in it any more");
  CHECK(lines[4] ==
        "communicator 0-0 (6b5d7fd14bd3ff8a): 2 ranks started all-gather 7; ranks 2, 3 started no all-gather");
  CHECK(lines[5].starts_with("the others wait for ranks 2, 3: "));
}

TEST_CASE("a truncated report gives its content, and no verdict") {
  const AnswerLines lines = explain_ras_report(recorded("cut"));
  CHECK(lines == AnswerLines{"NCCL 2.28.9+cuda13.0 says:"});
}

TEST_CASE("what is no report has no lines") {
  CHECK(explain_ras_report("").empty());
  CHECK(explain_ras_report("HTTP/1.1 400 Bad Request\r\n\r\n").empty());
}

TEST_CASE("a report of many thousand findings stays short") {
  std::string report = "NCCL version 2.28.9\n";
  for (int i = 0; i < 10'000; ++i) {
    report += "#" + std::to_string(i) + "-0 (0) ERROR\n  Asynchronous errors on 9999 ranks\n  9999 ranks reported x\n";
    for (int rank = 0; rank < 30; ++rank) report += "  Rank " + std::to_string(rank) + " -- GPU 0\n";
  }
  const AnswerLines lines = explain_ras_report(report);
  CHECK(lines.size() == 40);
  for (const auto& line : lines) CHECK(line.size() < 500);
}

}  // namespace
}  // namespace elastictrain::launcher
