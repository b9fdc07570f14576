// The report of a temporary process about a host's GPUs. The processes here are scripts.
#include "launcher/agent/accelerator_probe.h"
#include "tests/support/temporary_directory.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <asio/io_context.hpp>
#include <filesystem>
#include <fstream>

namespace elastictrain::launcher {
namespace {

using protocol::AcceleratorFacts;
using std::chrono::milliseconds;

constexpr milliseconds kProbePatience{20'000};

AcceleratorFacts sample() {
  AcceleratorFacts facts;
  facts.driver = "CUDA 13.0, libcuda.so.1";
  facts.gpus = {{"H100", 80ull << 30, 9, 0, "0000:01:00.0"}, {"H100", 80ull << 30, 9, 0, "0000:02:00.0"}};
  facts.nccl_version = 22809;
  facts.cublas_problem = "no libcublas.so\nwas found";
  return facts;
}

struct Script {
  explicit Script(const std::string& body) { directory.write_script("tool", body); }
  std::string path() const { return directory.file("tool"); }
  test::TemporaryDirectory directory;
};

AcceleratorFacts probe(const std::string& binary, milliseconds limit = kProbePatience) {
  asio::io_context io;
  int calls = 0;
  AcceleratorFacts found;
  probe_accelerators(io, binary, {"ET_PROBE_TEST=here"}, limit, [&](AcceleratorFacts facts) {
    ++calls;
    found = std::move(facts);
  });
  io.run_for(kProbePatience);
  REQUIRE(calls == 1);
  return found;
}

TEST_CASE("what was found goes through a line") {
  const auto facts = parse_accelerator_line(accelerator_line(sample()));
  REQUIRE(facts.has_value());
  REQUIRE(facts->gpus.size() == 2);
  CHECK(facts->gpus[1].bus_id == "0000:02:00.0");
  CHECK(facts->nccl_version == 22809);
  CHECK(facts->cublas_problem == "no libcublas.so\nwas found");
  CHECK(accelerator_line(sample()).find('\n') == std::string::npos);
}

TEST_CASE("other lines are no findings") {
  const std::string line = accelerator_line(sample());
  CHECK_FALSE(parse_accelerator_line("NCCL version 2.28.9").has_value());
  CHECK_FALSE(parse_accelerator_line(line + "0").has_value());
  CHECK_FALSE(parse_accelerator_line(line.substr(0, line.size() - 2)).has_value());
  CHECK_FALSE(parse_accelerator_line(line + "zz").has_value());
}

TEST_CASE("the process gets the workers' environment, and whatever else it prints is left out") {
  const Script tool("[ \"$1 $ET_PROBE_TEST\" = 'accelerators here' ] && echo noise && echo '" +
                    accelerator_line(sample()) + "'");
  const AcceleratorFacts facts = probe(tool.path());
  CHECK(facts.problem.empty());
  CHECK(facts.gpus.size() == 2);
}

TEST_CASE("a driver that crashes the process is a finding, not an accident") {
  const Script tool("echo 'driver: out of luck' >&2; kill -SEGV $$");
  const AcceleratorFacts facts = probe(tool.path());
  CHECK(facts.problem.find("signal 11") != std::string::npos);
  CHECK(facts.problem.find("out of luck") != std::string::npos);
}

TEST_CASE("a driver that hangs is given up by the limit") {
  const Script tool("exec sleep 1000");
  CHECK(probe(tool.path(), milliseconds(200)).problem == "looking for GPUs took longer than 200.0 ms");
}

TEST_CASE("a program that cannot be started is named") {
  CHECK(probe("/nonexistent/elastictrain").problem.find("/nonexistent/elastictrain") != std::string::npos);
}

}  // namespace
}  // namespace elastictrain::launcher
