#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/commands/command.h"
#include "cli/commands/run/torchrun_line.h"
#include "tests/support/contains.h"

using namespace elastictrain;
using namespace elastictrain::cli;
using elastictrain::test::contains;

namespace {

using Words = std::vector<std::string>;

TorchrunSurroundings machine() {
  TorchrunSurroundings around;
  around.processors = 16;
  around.gpus = 4;
  around.log_directory = "/tmp/logs";
  return around;
}

Words arguments_of(const TorchrunOptions& options, const TorchrunSurroundings& around = machine()) {
  const auto line = run_line_of(options, around, {"train.py"});
  REQUIRE(line.ok());
  return line->arguments;
}

std::string refusal_of(const TorchrunOptions& options, const TorchrunSurroundings& around = machine()) {
  const auto line = run_line_of(options, around, {"train.py"});
  REQUIRE_FALSE(line.ok());
  return line.error().message;
}

// The value after `flag`, or nothing.
std::string value_of(const Words& arguments, const std::string& flag) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == flag) return arguments[i + 1];
  }
  return "";
}

// What the user's words become: options for torchrun, and the program.
std::pair<Words, Words> parts_of(Words words) {
  Invocation invocation;
  Words program;
  words.insert(words.begin(), "torchrun");
  Words options = prepare_arguments(all_commands(invocation), words, program);
  options.erase(options.begin());
  return {options, program};
}

}  // namespace

TEST_CASE("hosts times workers of a host is the size") {
  TorchrunOptions options;
  CHECK(arguments_of(options) == Words{"-n", "1", "--max-restarts", "0"});
  options.nproc_per_node = "3";
  CHECK(value_of(arguments_of(options), "-n") == "3");
  options.max_restarts = "2";
  CHECK(arguments_of(options) == Words{"-n", "3", "--max-restarts", "2", "--set", "failures.plain_restarts=2"});
  options.max_restarts = "0";
  options.nnodes = "2:5";
  auto around = machine();
  around.names_hosts = true;
  options.passed_on = {"--hosts", "a,b,c,d,e"};
  CHECK(arguments_of(options, around) ==
        Words{"-n", "6:15", "--nproc-per-node", "3", "--max-restarts", "0", "--hosts", "a,b,c,d,e"});
}

TEST_CASE("processes of a host make whole replicas, which are the run's workers") {
  TorchrunOptions options;
  options.nproc_per_node = "8";
  options.per_replica = "2";
  CHECK(arguments_of(options) == Words{"-n", "4", "--per-replica", "2", "--max-restarts", "0"});
  options.nnodes = "1:3";
  auto around = machine();
  around.names_hosts = true;
  options.passed_on = {"--hosts", "a,b,c"};
  CHECK(arguments_of(options, around) ==
        Words{"-n", "4:12", "--nproc-per-node", "4", "--per-replica", "2", "--max-restarts", "0", "--hosts", "a,b,c"});
  options.per_replica = "16";
  options.nnodes = "4";
  CHECK(arguments_of(options, around) == Words{"-n", "2", "--nproc-per-node", "1", "--per-replica", "16",
                                               "--hosts-per-replica", "2", "--max-restarts", "0", "--hosts", "a,b,c"});
  options.nnodes = "3:7";
  CHECK(value_of(arguments_of(options, around), "-n") == "2:3");
  options.nnodes = "3";
  CHECK(contains(refusal_of(options, around), "3 hosts are no whole number of replicas over 2 hosts"));
  options.nnodes = "1";
  CHECK(contains(refusal_of(options, around), "1 hosts are no whole number of replicas over 2 hosts"));
  options.per_replica = "12";
  CHECK(contains(refusal_of(options, around), "a replica of 12 is no whole number of hosts of 8 processes"));
  options.per_replica = "3";
  CHECK(contains(refusal_of(options, around), "8 processes of a host are no whole number of replicas of 3"));
  for (const auto* bad : {"0", "-1", "two", ""}) {
    options.per_replica = bad;
    CHECK(contains(refusal_of(options, around), "--per-replica"));
  }
}

TEST_CASE("auto, gpu and cpu are counted on this host") {
  TorchrunOptions options;
  auto around = machine();
  for (const auto& [word, gpus, workers] : {std::tuple("auto", 4U, "4"), std::tuple("auto", 0U, "16"),
                                            std::tuple("gpu", 4U, "4"), std::tuple("cpu", 4U, "16")}) {
    options.nproc_per_node = word;
    around.gpus = gpus;
    CHECK(value_of(arguments_of(options, around), "-n") == workers);
  }
  options.nproc_per_node = "gpu";
  around.gpus = 0;
  CHECK(contains(refusal_of(options, around), "no GPU"));
}

TEST_CASE("output that torchrun writes to files goes to files, by local rank") {
  TorchrunOptions options;
  options.nproc_per_node = "3";
  options.redirects = "3";
  CHECK(value_of(arguments_of(options), "--log-dir") == "/tmp/logs");
  CHECK(value_of(arguments_of(options), "--tee") == "none");
  options.tee = "3";
  CHECK(value_of(arguments_of(options), "--tee").empty());
  options.log_dir = "/data/logs";
  options.tee = "0";
  options.redirects = "0:3,2:1";
  CHECK(value_of(arguments_of(options), "--log-dir") == "/data/logs");
  CHECK(value_of(arguments_of(options), "--tee") == "1");
  TorchrunOptions filtered;
  filtered.nproc_per_node = "3";
  filtered.local_ranks_filter = "0,2";
  CHECK(value_of(arguments_of(filtered), "--show-ranks") == "0,2");
}

TEST_CASE("role, name, label and time-outs have their counterparts") {
  TorchrunOptions options;
  options.role = "trainer";
  options.rdzv_id = "job7";
  options.master_port = "29501";
  options.shutdown_timeout = "5";
  options.numa_binding = "node";
  options.label_template = "[${role_name}${local_rank}]: ";
  const Words arguments = arguments_of(options);
  CHECK(value_of(arguments, "--name") == "job7");
  CHECK(value_of(arguments, "--grace") == "5s");
  CHECK(value_of(arguments, "--bind") == "numa");
  CHECK(value_of(arguments, "-x") == "MASTER_PORT=29501");
  CHECK(std::count(arguments.begin(), arguments.end(), "--label=[trainer{local_rank}]: ") == 1);
  CHECK(std::count(arguments.begin(), arguments.end(), "ROLE_NAME=trainer") == 1);
}

TEST_CASE("a script, a module, a program and a path are started as torchrun starts them") {
  TorchrunOptions options;
  const auto program = [&] { return run_line_of(options, machine(), {"a.py", "-x", "1"})->program; };
  CHECK(program() == Words{"python3", "-u", "a.py", "-x", "1"});
  options.module = true;
  CHECK(program() == Words{"python3", "-u", "-m", "a.py", "-x", "1"});
  options.no_python = true;
  CHECK_FALSE(run_line_of(options, machine(), {"a.py"}).ok());
  options.module = false;
  CHECK(program() == Words{"a.py", "-x", "1"});
  CHECK_FALSE(run_line_of(options, machine(), {}).ok());
}

TEST_CASE("what cannot be followed is refused with what to use instead") {
  const auto refused = [](std::string TorchrunOptions::*option, const char* value) {
    TorchrunOptions options;
    options.*option = value;
    return refusal_of(options);
  };
  CHECK(contains(refused(&TorchrunOptions::nnodes, "2"), "-H hostA,hostB"));
  CHECK(contains(refused(&TorchrunOptions::node_rank, "1"), "one command starts the workers of all hosts"));
  CHECK(contains(refused(&TorchrunOptions::numa_binding, "socket"), "--bind core"));
  for (const char* bad : {"", "0", "3:2", "1:2:3", "two", "-1", "99999999999"}) {
    CHECK(contains(refused(&TorchrunOptions::nnodes, bad), "--nnodes"));
  }
  for (const char* bad : {"4", "0:4", "x", "1:", "3,3"}) {
    CHECK(contains(refused(&TorchrunOptions::redirects, bad), "--redirects"));
  }
  for (const char* bad : {"0", "many", "-2"}) {
    CHECK(contains(refused(&TorchrunOptions::nproc_per_node, bad), "--nproc-per-node"));
  }
  CHECK(contains(refused(&TorchrunOptions::max_restarts, "x"), "--max-restarts"));
  CHECK(contains(refused(&TorchrunOptions::shutdown_timeout, "1m"), "--shutdown-timeout"));
  CHECK(contains(refused(&TorchrunOptions::local_ranks_filter, "0-3"), "--local-ranks-filter"));
}

TEST_CASE("the program begins with the first word that belongs to no option") {
  CHECK(parts_of({"--nproc_per_node", "2", "a.py", "--nnodes", "3"}) ==
        std::pair(Words{"--nproc-per-node", "2"}, Words{"a.py", "--nnodes", "3"}));
  CHECK(parts_of({"--nproc_per_node=2", "-m", "pkg.run", "-t"}) ==
        std::pair(Words{"--nproc-per-node=2", "-m"}, Words{"pkg.run", "-t"}));
  CHECK(parts_of({"-t", "3", "-r3", "--log_dir=/my_logs", "a.py"}) ==
        std::pair(Words{"-t", "3", "-r3", "--log-dir=/my_logs"}, Words{"a.py"}));
  CHECK(parts_of({"--standalone", "--", "a.py", "--", "b"}) ==
        std::pair(Words{"--standalone"}, Words{"a.py", "--", "b"}));
  CHECK(parts_of({"--nnodes"}) == std::pair(Words{"--nnodes"}, Words{}));
}

TEST_CASE("with an endpoint the command of every host finds the others") {
  TorchrunOptions options;
  options.nnodes = "2:3";
  options.nproc_per_node = "4";
  options.rdzv_id = "job7";
  options.rdzv_endpoint = "node0:29400";
  CHECK(arguments_of(options) == Words{"-n", "8:12", "--start", "12", "--nproc-per-node", "4", "--endpoint",
                                       "node0:29400", "--name", "job7", "--max-restarts", "0"});
  options.node_rank = "0";
  CHECK(value_of(arguments_of(options), "--endpoint-role") == "hold");
  options.node_rank = "2";
  CHECK(value_of(arguments_of(options), "--endpoint-role") == "join");
  options.node_rank = "";
  options.rdzv_conf = "is_host=True,read_timeout=5,last_call_timeout=20";
  CHECK(value_of(arguments_of(options), "--endpoint-role") == "hold");
  CHECK(value_of(arguments_of(options), "--set") == "timeouts.start_ms=20000");
  options.rdzv_conf = "join_timeout=soon";
  CHECK(contains(refusal_of(options), "'join_timeout=soon' is not a number of seconds"));
}

TEST_CASE("torchrun's static rendezvous is an endpoint as well") {
  TorchrunOptions options;
  options.nnodes = "2";
  options.node_rank = "1";
  options.master_addr = "node0";
  const Words words = arguments_of(options);
  CHECK(value_of(words, "--endpoint") == "node0:29500");
  CHECK(value_of(words, "--endpoint-role") == "join");
  options.master_port = "1234";
  CHECK(value_of(arguments_of(options), "--endpoint") == "node0:1234");
  CHECK(value_of(arguments_of(options), "-x").empty());
}

TEST_CASE("an endpoint has nothing to do on one host, and where hosts are named") {
  TorchrunOptions options;
  options.rdzv_endpoint = "localhost:0";
  CHECK(value_of(arguments_of(options), "--endpoint").empty());
  options.nnodes = "2";
  auto around = machine();
  around.names_hosts = true;
  CHECK(value_of(arguments_of(options, around), "--endpoint").empty());
}
