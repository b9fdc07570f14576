#include "cli/app.h"

#include <doctest/doctest.h>

#include <sstream>
#include <variant>

#include "cli/commands/completion.h"
#include "cli/commands/man.h"
#include "cli/commands/run_flags.h"
#include "cli/config/schema.h"
#include "cli/parser.h"

using namespace elastictrain;
using namespace elastictrain::cli;

namespace {

// The configuration that the flags of `run` give, as `run` itself reads them.
LoadedConfig parse_run(std::vector<std::string> words) {
  Invocation invocation;
  const auto flags = std::make_shared<RunFlags>();
  const std::vector<Command> commands = {
      {"run", "", kGroupTrain, run_arguments(flags), always(invocation, [] { return 0; }), "", true}};
  std::vector<std::string> program;
  words.insert(words.begin(), "run");
  REQUIRE(!parse_arguments(commands, {}, prepare_arguments(commands, words, program)));
  auto loaded = load_from_flags(*flags, program, {});
  if (const auto* error = std::get_if<ConfigError>(&loaded)) FAIL(error->text());
  return std::get<LoadedConfig>(std::move(loaded));
}

// Exit status of a command line that ends before its action.
int status_of(std::vector<std::string> words) {
  words.insert(words.begin(), "elastictrain");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return run_cli(static_cast<int>(pointers.size()), pointers.data());
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("the flags of torchrun and mpirun work without a config file") {
  const RunConfig config = parse_run({"-n",
                                      "2:4",
                                      "-H",
                                      "hostA:2,hostB:2",
                                      "-x",
                                      "A",
                                      "-x",
                                      "B=c d",
                                      "--ssh-port",
                                      "2222",
                                      "--ssh-args",
                                      "-J gateway",
                                      "--show-ranks",
                                      "0,2",
                                      "--log-dir",
                                      "logs",
                                      "--timestamp",
                                      "--time-limit",
                                      "5m",
                                      "--grace",
                                      "1500ms",
                                      "--name",
                                      "job",
                                      "--",
                                      "./train",
                                      "--epochs",
                                      "5"})
                               .config;
  CHECK(config.workers.min == 2);
  CHECK(config.workers.start == 0);
  CHECK(config.workers.max == 4);
  CHECK(config.hosts.list == Words{"hostA:2", "hostB:2"});
  CHECK(config.environment.pass == Words{"A"});
  CHECK(config.environment.set == Words{"B=c d"});
  CHECK(config.launcher.ssh_port == 2222);
  CHECK(config.launcher.ssh_args == Words{"-J", "gateway"});
  CHECK(config.log.show_ranks == "0,2");
  CHECK(config.log.directory == "logs");
  CHECK(config.log.timestamp);
  CHECK(config.timeouts.time_limit_s == 300);
  CHECK(config.timeouts.grace_ms == 1500);
  CHECK(config.name == "job");
  CHECK(config.command == Words{"./train", "--epochs", "5"});
}

TEST_CASE("long and short forms mean the same") {
  CHECK(parse_run({"--np", "3", "--", "t"}).config.workers.max == 3);
  CHECK(parse_run({"-n3", "--", "t"}).config.workers.min == 3);
  CHECK(parse_run({"--np=3", "--min-np", "1", "--max-np", "5", "--start=2", "--", "t"}).config.workers.start == 2);
  CHECK(parse_run({"--hosts", "a", "--hosts", "b", "--", "t"}).config.hosts.list == Words{"a", "b"});
  CHECK(parse_run({"-f", "hosts", "--", "t"}).config.hosts.file == "hosts");
  CHECK(parse_run({"--hostfile=hosts", "--", "t"}).config.hosts.file == "hosts");
  CHECK(parse_run({"--discover", "./d --all", "--", "t"}).config.hosts.discover == "./d --all");
  CHECK(parse_run({"--nproc-per-node", "4", "--", "t"}).config.hosts.slots == 4);
  CHECK(parse_run({"--ppn", "4", "--", "t"}).config.hosts.slots == 4);
  CHECK(parse_run({"--env-file", "e", "--", "t"}).config.environment.file == "e");
  CHECK(parse_run({"--ssh-identity", "key", "--", "t"}).config.launcher.ssh_identity == "key");
}

TEST_CASE("a label may stand alone, have a template, or be none") {
  const std::string usual = LogConfig{}.label;
  CHECK(parse_run({"-l", "--", "t"}).config.log.label == usual);
  CHECK(parse_run({"--label", "--", "t"}).config.log.label == usual);
  CHECK(parse_run({"--label=<{rank}> ", "--", "t"}).config.log.label == "<{rank}> ");
  CHECK(parse_run({"--label=none", "--", "t"}).config.log.label.empty());
}

TEST_CASE("any key can be set, and a flag of its own is no stronger than --set") {
  const LoadedConfig loaded = parse_run({"--set", "batch.per_worker=64", "--set", "trainer.epochs=3"});
  CHECK(loaded.config.batch.per_worker == 64);
  CHECK(loaded.config.use_trainer);
  CHECK(loaded.where("batch.per_worker") == "--set batch.per_worker=64");
}

TEST_CASE("the program's arguments are passed on unchanged") {
  const Words words = {"./t", "", "a b", "--np", "-n", "--", "-l", "$HOME"};
  Words line = {"-n", "1", "--"};
  line.insert(line.end(), words.begin(), words.end());
  CHECK(parse_run(line).config.command == words);
}

TEST_CASE("a program needs no dashes before it where it can be told from a config file") {
  CHECK(parse_run({"-n", "2", "/bin/true", "-n", "3", "--", "x"}).config.command ==
        Words{"/bin/true", "-n", "3", "--", "x"});
  CHECK(parse_run({"--np", "2", "sleep", "1"}).config.command == Words{"sleep", "1"});
  CHECK(parse_run({"-x", "A=1", "-l", "train.py"}).config.command == Words{"train.py"});
  CHECK(parse_run({"-n2", "--name=sleep", "--hosts", "sleep", "true"}).config.command == Words{"true"});
  for (const char* word : {"job.toml", "/dev/null", "/", "./none", "no-program-of-this-name", "-n", ""}) {
    CHECK_MESSAGE(!begins_program(word), word);
  }
}

TEST_CASE("wrong usage ends with 64 and a mistake in a file with 78") {
  CHECK(status_of({}) == 64);
  CHECK(status_of({"fly"}) == 64);
  CHECK(status_of({"run", "--no-such-flag"}) == 64);
  CHECK(status_of({"run"}) == 64);
  CHECK(status_of({"run", "-n", "x", "--", "t"}) == 64);
  CHECK(status_of({"run", "-n", "4:2", "--", "t"}) == 64);
  CHECK(status_of({"run", "--grace", "soon", "--", "t"}) == 64);
  CHECK(status_of({"run", "--set", "no.such=1", "--", "t"}) == 64);
  CHECK(status_of({"run", "-x", "1A=2", "--", "t"}) == 64);
  CHECK(status_of({"run", "/no/such/config.toml"}) == 66);
  CHECK(status_of({"resize", "many"}) == 64);
  CHECK(status_of({"topology", "circle"}) == 64);
  CHECK(status_of({"worker", "--epochs=none"}) == 64);
}

TEST_CASE("help and version are no errors") {
  CHECK(status_of({"--help"}) == 0);
  CHECK(status_of({"--version"}) == 0);
  CHECK(status_of({"--build-id"}) == 0);
  for (const char* command : {"run", "check", "plan", "status", "resize", "replace", "drain", "undrain", "topology",
                              "stop", "events", "worker", "completion"}) {
    CAPTURE(command);
    CHECK(status_of({command, "--help"}) == 0);
  }
}

namespace {

// The texts that may stand at the end of these words, in order.
Words completed(const Words& words) {
  const CompletionNames names{[] { return Words{"live"}; }, [] { return Words{"ended"}; },
                              [](const std::string& run) { return Words{"host-of-" + run}; },
                              [] { return Words{"j7"}; }};
  Invocation invocation;
  Words texts;
  for (const Candidate& one : completion_candidates(all_commands(invocation), words, names)) texts.push_back(one.text);
  return texts;
}

}  // namespace

TEST_CASE("completion knows commands, flags and the values that a flag names") {
  CHECK(completed({"topo"}) == Words{"topology"});
  CHECK(completed({"agen"}).empty());
  CHECK(completed({"run", "--hostf"}) == Words{"--hostfile"});
  CHECK(completed({"run", "--on-failure", ""}) == Words{"replace", "shrink", "stop"});
  CHECK(completed({"run", "-n", ""}).empty());
  CHECK(completed({"completion", "z"}) == Words{"zsh"});
  CHECK(completed({}).empty());
}

TEST_CASE("completion names runs, hosts and jobs where a command takes them, and nothing behind --") {
  CHECK(completed({"stop", ""}) == Words{"live"});
  CHECK(completed({"prune", ""}) == Words{"ended"});
  CHECK(completed({"logs", ""}) == Words{"live", "ended"});
  CHECK(completed({"run", "--resume", ""}) == Words{"ended"});
  CHECK(completed({"drain", "job", ""}) == Words{"host-of-job"});
  CHECK(completed({"cancel", ""}) == Words{"j7"});
  CHECK(completed({"run", "-n", "2", "--", "python3", "--he"}).empty());
}

TEST_CASE("manual pages have short lines, and one tells of every configuration key") {
  Invocation invocation;
  const auto commands = all_commands(invocation);
  std::vector<std::string> pages = {man_page_of_all(commands), man_page_of_keys()};
  for (const Command& command : commands) {
    if (!command.group.empty()) pages.push_back(man_page(command));
  }
  for (const std::string& page : pages) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
    }
  }
  for (const KeySpec& key : schema()) {
    CAPTURE(key.name);
    std::string name = key.name;
    for (std::size_t at = name.find('-'); at != std::string::npos; at = name.find('-', at + 2)) name.insert(at, "\\");
    CHECK(pages[1].find("\\fB" + name + "\\fR") != std::string::npos);
  }
}

TEST_CASE("each shell has a script that asks this program") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    CHECK(completion_script(shell).find(" complete -- ") != std::string::npos);
  }
  CHECK(completion_script("zsh").starts_with("#compdef elastictrain"));
}
