#include <doctest/doctest.h>

#include <variant>

#include "cli/config/key_value.h"
#include "cli/config/load.h"
#include "cli/config/schema.h"
#include "tests/support/contains.h"

using namespace elastictrain;
using namespace elastictrain::cli;

namespace {

ConfigInputs from_text(std::string text) {
  ConfigInputs inputs;
  inputs.file_name = "job.toml";
  inputs.file_text = std::move(text);
  return inputs;
}

ConfigInputs from_program() {
  ConfigInputs inputs;
  inputs.program = {"./train"};
  return inputs;
}

LoadedConfig good(const ConfigInputs& inputs) {
  auto loaded = load_config(inputs);
  if (const auto* error = std::get_if<ConfigError>(&loaded)) FAIL(error->text());
  return std::get<LoadedConfig>(std::move(loaded));
}

std::string bad(const ConfigInputs& inputs) {
  auto loaded = load_config(inputs);
  const auto* error = std::get_if<ConfigError>(&loaded);
  return error == nullptr ? "(accepted)" : error->text();
}

using elastictrain::test::contains;

// A file with one key, on line 4.
std::string file_with(const KeySpec& key, const std::string& value) {
  const auto [section, name] = split_key(key.name);
  if (section.empty()) return "\n\n\n" + std::string(name) + " = " + value + "\n";
  return "\n\n[" + std::string(section) + "]\n" + std::string(name) + " = " + value + "\n";
}

std::string mutated(const std::string& name) {
  return name + "x";
}

}  // namespace

TEST_CASE("every key that is misspelt is reported with its line, its section and the key that was meant") {
  for (const KeySpec& key : schema()) {
    KeySpec wrong = key;
    wrong.name = mutated(key.name);
    const auto [section, name] = split_key(key.name);
    const std::string message = bad(from_text(file_with(wrong, "1")));
    CAPTURE(key.name);
    CAPTURE(message);
    CHECK(contains(message, "job.toml:4:1: unknown key \"" + mutated(std::string(name)) + "\""));
    if (!section.empty()) CHECK(contains(message, "in [" + std::string(section) + "]"));
    CHECK(contains(message, "did you mean \"" + std::string(name) + "\""));
  }
}

TEST_CASE("every key that has a value of a wrong type is reported with its line") {
  for (const KeySpec& key : schema()) {
    const std::string message = bad(from_text(file_with(key, "1979-05-27")));
    CAPTURE(key.name);
    CHECK(contains(message, "job.toml:4:1: " + key.name + " must be "));
  }
}

TEST_CASE("every number is refused outside its range and taken at its ends") {
  for (const KeySpec& key : schema()) {
    const auto* field = std::get_if<IntegerField>(&key.field);
    if (field == nullptr) continue;
    CAPTURE(key.name);
    RunConfig config;
    CHECK(assign(config, key, static_cast<std::int64_t>(field->min)).ok());
    CHECK(assign(config, key, static_cast<std::int64_t>(field->max)).ok());
    CHECK(field->at(config) == field->max);
    CHECK(contains(bad(from_text(file_with(key, std::to_string(field->max + 1)))), "job.toml:4:1: " + key.name));
    CHECK(contains(bad(from_text(file_with(key, "-1"))), "from " + std::to_string(field->min)));
    CHECK(!assign(config, key, std::string("10")).ok());
  }
}

TEST_CASE("every choice takes the names it lists and no other") {
  for (const KeySpec& key : schema()) {
    const auto* field = std::get_if<ChoiceField>(&key.field);
    if (field == nullptr) continue;
    CAPTURE(key.name);
    for (const std::string_view name : field->names) {
      RunConfig config;
      CHECK(assign(config, key, std::string(name)).ok());
      CHECK(render_value(config, key) == name);
    }
    CHECK(contains(bad(from_text(file_with(key, "\"other\""))), "one of \"" + std::string(field->names[0])));
  }
}

TEST_CASE("every key can be set by text to the value it renders") {
  for (const KeySpec& key : schema()) {
    RunConfig config;
    const std::string text = render_value(config, key);
    CAPTURE(key.name);
    if (key.name == "name" || text.empty()) continue;
    CHECK(assign_text(config, key, text).ok());
    CHECK(render_value(config, key) == text);
  }
}

TEST_CASE("no two keys share a name, a flag or an environment variable") {
  for (const KeySpec& a : schema()) {
    for (const KeySpec& b : schema()) {
      if (&a == &b) continue;
      CAPTURE(a.name);
      CHECK(a.name != b.name);
      CHECK(environment_name(a) != environment_name(b));
      CHECK((a.flag.empty() || a.flag != b.flag));
    }
  }
}

TEST_CASE("an unknown section names the one that was meant") {
  CHECK(contains(bad(from_text("[wrokers]\nmin = 1\n")),
                 "job.toml:1:2: unknown section [wrokers]; did you mean \"workers\"?"));
  CHECK(contains(bad(from_text("workers = 3\n")), "job.toml:1:1: \"workers\" is a section: write [workers]"));
}

TEST_CASE("a wrong unit in a key's name is answered with the right one") {
  CHECK(contains(bad(from_text("[checkpoint]\nhow_often = 30\n")),
                 "unknown key \"how_often\" in [checkpoint]; its keys: directory, interval_steps, "));
  CHECK(contains(bad(from_text("[timeouts]\ngrace_s = 30\n")), "did you mean \"grace_ms\" (in milliseconds)?"));
  CHECK(contains(bad(from_text("[timeouts]\ngrace = 30\n")), "did you mean \"grace_ms\""));
  CHECK(contains(bad(from_text("[timeouts]\ngrace_ms = \"30s\"\n")), "write grace_ms = 30000"));
}

TEST_CASE("a key that stands twice and broken syntax are reported with their line") {
  CHECK(contains(bad(from_text("[workers]\nmin = 1\nmin = 2\n")), "job.toml:3:"));
  CHECK(contains(bad(from_text("[workers\n")), "job.toml:1:"));
}

TEST_CASE("all mistakes of a file are reported at once") {
  const std::string message = bad(from_text("[workers]\nmni = 1\n[batch]\nper_worker = -1\n"));
  CHECK(contains(message, "job.toml:2:1:"));
  CHECK(contains(message, "job.toml:4:1:"));
}

TEST_CASE("a letter outside of quotes is a mistake with its place") {
  for (const char* text : {"name = \xc3\xa9\n", "\xd1\xa0 = 3\n", "command = [ \xd1\xa0\"a\" ]\n"}) {
    const auto loaded = load_config(from_text(text));
    REQUIRE(std::holds_alternative<ConfigError>(loaded));
    CHECK(std::get<ConfigError>(loaded).text().find("job.toml:1:") != std::string::npos);
  }
  CHECK(std::holds_alternative<LoadedConfig>(load_config(from_text("command = [\"\xc3\xa9\"]  # \xd1\xa0\n"))));
}

TEST_CASE("time-outs in the wrong order are reported with both keys and both places") {
  ConfigInputs inputs = from_text("command = [\"./t\"]\n[timeouts]\nsuspect_ms = 5000\ndead_ms = 4000\n");
  const std::string message = bad(inputs);
  CHECK(contains(message,
                 "timeouts.suspect_ms = 5000 (job.toml:3:1) must be less than timeouts.dead_ms = 4000 (job.toml:4:1)"));
  inputs.settings = {{"timeouts.dead_ms", "6000", "--set timeouts.dead_ms=6000"}};
  CHECK(good(inputs).config.timeouts.dead_ms == 6000);
  ConfigInputs flags = from_program();
  flags.settings = {{"timeouts.heartbeat_ms", "1000", "--set timeouts.heartbeat_ms=1000"}};
  CHECK(contains(bad(flags), "timeouts.suspect_ms = 1000 (default)"));
}

TEST_CASE("a flag wins over the environment, the environment over the file, the file over the default") {
  ConfigInputs inputs = from_text("command = [\"./t\"]\n");
  CHECK(good(inputs).config.batch.per_worker == 0);
  inputs.file_text = *inputs.file_text + "[batch]\nper_worker = 64\n";
  CHECK(good(inputs).config.batch.per_worker == 64);
  CHECK(good(inputs).where("batch.per_worker") == "job.toml:3:1");
  inputs.environment = {{"ELASTICTRAIN_BATCH_PER_WORKER", "128"}};
  CHECK(good(inputs).config.batch.per_worker == 128);
  inputs.settings = {{"batch.per_worker", "256", "--batch 256"}};
  CHECK(good(inputs).config.batch.per_worker == 256);
  CHECK(good(inputs).where("batch.per_worker") == "--batch 256");
}

TEST_CASE("a bad value names the flag or the variable it came from") {
  ConfigInputs inputs = from_program();
  inputs.environment = {{"ELASTICTRAIN_BATCH_PER_WORKER", "many"}};
  CHECK(contains(bad(inputs),
                 "environment variable ELASTICTRAIN_BATCH_PER_WORKER: batch.per_worker must be a whole number"));
  inputs.environment.clear();
  inputs.settings = {{"batch.per_workr", "1", "--set batch.per_workr=1"}};
  CHECK(contains(bad(inputs),
                 "--set batch.per_workr=1: unknown key \"per_workr\" in [batch]; did you mean \"per_worker\""));
}

TEST_CASE("only mistakes of the command line count as wrong usage") {
  ConfigInputs inputs = from_program();
  inputs.settings = {{"workers.min", "0", "--min-np 0"}};
  CHECK(std::get<ConfigError>(load_config(inputs)).only_flags);
  CHECK(!std::get<ConfigError>(load_config(from_text("nmae = \"x\"\n"))).only_flags);
}

TEST_CASE("sizes that contradict each other are refused") {
  CHECK(contains(bad(from_text("command = [\"./t\"]\n[workers]\nmin = 4\nmax = 2\n")), "workers.min = 4"));
  CHECK(contains(bad(from_text("command = [\"./t\"]\n[workers]\nstart = 5\nmax = 2\n")), "workers.start = 5"));
  CHECK(contains(bad(from_text("command = [\"./t\"]\n[batch]\nper_worker = 32\nmax_global = 8\n")),
                 "batch.max_global = 8"));
}

TEST_CASE("replicas over several hosts are refused with what cannot have them") {
  const std::string head = "command = [\"./t\"]\n[workers]\nper_replica = 4\nhosts_per_replica = ";
  CHECK(good(from_text(head + "2\n")).config.workers.hosts_per_replica == 2);
  CHECK(contains(bad(from_text(head + "3\n")), "workers.hosts_per_replica = 3"));
  CHECK(contains(bad(from_text(head + "3\n")), "must divide workers.per_replica = 4"));
  CHECK(contains(bad(from_text("command = [\"./t\"]\n[workers]\nhosts_per_replica = 2\n")), "must divide"));
  for (const char* other :
       {"[hosts]\nkeep_warm_s = 5\n", "[hosts]\nexpand = \"more\"\n", "[launcher]\nkind = \"mpi\"\n"}) {
    CHECK(contains(bad(from_text(head + "2\n" + other)), "exclude each other"));
  }
  CHECK(contains(bad(from_text("cluster = \"main\"\n" + head + "2\n")), "a cluster leases single slots"));
}

TEST_CASE("a budget of failures is a number or unlimited, when read and when printed") {
  const KeySpec& key = *find_key("failures.max_crashes");
  RunConfig config;
  CHECK(assign(config, key, std::string("unlimited")).ok());
  CHECK(config.failures.max_crashes == kNoLimit);
  CHECK(render_value(config, key) == "unlimited");
  CHECK(assign_text(config, key, " 3 ").ok());
  CHECK(render_value(config, key) == "3");
  CHECK(good(from_text("command = [\"./t\"]\n[failures]\nmax_hangs = \"unlimited\"\n")).config.failures.max_hangs ==
        kNoLimit);
  CHECK(contains(bad(from_text("[failures]\nmax_crashes = \"many\"\n")), "or \"unlimited\", not the string 'many'"));
  CHECK(contains(bad(from_text("[failures]\nhang_steps = \"unlimited\"\n")), "failures.hang_steps must be"));
}

TEST_CASE("failure settings that contradict each other are refused with both places") {
  const std::string head = "command = [\"./t\"]\n";
  CHECK(contains(
      bad(from_text(head + "[failures]\nhang_min_ms = 2000\nhang_max_ms = 1000\n")),
      "failures.hang_min_ms = 2000 (job.toml:3:1) must be at most failures.hang_max_ms = 1000 (job.toml:4:1)"));
  CHECK(contains(bad(from_text(head + "[failures]\nhang_min_ms = 100\n")), "timeouts.heartbeat_ms = 250"));
  CHECK(good(from_text(head + "[failures]\nhang_min_ms = 100\ndetect_hangs = false\n")).config.failures.hang_min_ms ==
        100);
  CHECK(contains(bad(from_text(head + "[failures]\ncool_down_ms = 700000\n")), "failures.cool_down_max_ms = 600000"));
  CHECK(contains(bad(from_text(head + "[checkpoint]\nresume = true\n")),
                 "checkpoint.resume = true (job.toml:3:1) needs checkpoint.directory"));
  CHECK(contains(bad(from_text(head + "[checkpoint]\ninterval_steps = 5\n")), "needs checkpoint.directory"));
}

TEST_CASE("sums over MPI need workers that MPI has started, all of them at the start") {
  const std::string program = "command = [\"./train\"]\n";
  const std::string backend = program + "[network]\nbackend = \"mpi\"\n";
  const std::string launcher = "[launcher]\nkind = \"mpi\"\n";
  CHECK(good(from_text(backend + launcher)).config.network.backend == BackendChoice::kMpi);
  CHECK(good(from_text(program + launcher)).config.network.backend == BackendChoice::kAuto);
  const std::string alone = bad(from_text(backend));
  CHECK(contains(alone, "network.backend = mpi (job.toml:3:1) needs workers started by MPI"));
  CHECK(contains(alone, "--launcher mpi"));
  CHECK(contains(bad(from_text(backend + launcher + "[hosts]\ndiscover = \"./hosts.sh\"\n")),
                 "hosts.discover = ./hosts.sh (job.toml:7:1) cannot add workers"));
  CHECK(contains(bad(from_text(backend + launcher + "[hosts]\nexpand = \"./more.sh\"\n")), "cannot add workers"));
  CHECK(contains(bad(from_text(program + launcher + "mpi_command = []\n")), "must not be empty"));
  CHECK(
      good(from_text(program + launcher + "mpi_command = [\"srun\", \"--mpi=pmi2\"]\n")).config.launcher.mpi_command ==
      std::vector<std::string>{"srun", "--mpi=pmi2"});
}

TEST_CASE("a command that starts agents needs the launcher that uses it, and the launcher needs the command") {
  const std::string program = "command = [\"./train\"]\n[launcher]\n";
  const std::string command = "command = [\"kubectl\", \"exec\", \"-i\", \"{host}\", \"--\"]\n";
  CHECK(good(from_text(program + "kind = \"command\"\n" + command)).config.launcher.command.size() == 5);
  CHECK(contains(bad(from_text(program + "kind = \"command\"\n")), "needs launcher.command, such as"));
  CHECK(contains(bad(from_text(program + command)), "launcher.kind"));
}

TEST_CASE("a program and the trainer exclude each other in a file, and a program of the command line wins") {
  ConfigInputs inputs = from_text("command = [\"./t\"]\n[trainer]\nmodel = \"mlp\"\n");
  CHECK(contains(bad(inputs), "exclude each other"));
  inputs.file_text = "[trainer]\nmodel = \"mlp\"\nhidden = [64, 32]\nlearning_rate = 0.1\n";
  CHECK(good(inputs).config.use_trainer);
  CHECK(good(inputs).config.trainer.hidden == std::vector<std::uint32_t>{64, 32});
  CHECK(good(inputs).config.trainer.learning_rate == doctest::Approx(0.1));
  inputs.program = {"./train", "--epochs", "5"};
  CHECK(!good(inputs).config.use_trainer);
  CHECK(good(inputs).config.command == std::vector<std::string>{"./train", "--epochs", "5"});
  CHECK(contains(bad(from_text("")), "nothing to run"));
}

TEST_CASE("hosts from a flag replace the host file of the config, and two sources of one level are refused") {
  ConfigInputs inputs = from_text("command = [\"./t\"]\n[hosts]\nfile = \"hosts\"\n");
  inputs.settings = {{"hosts.list", "a:2,b", "-H a:2,b"}};
  CHECK(good(inputs).config.hosts.file.empty());
  CHECK(good(inputs).config.hosts.list == std::vector<std::string>{"a:2", "b"});
  inputs.file_text = "command = [\"./t\"]\n[hosts]\nfile = \"hosts\"\ndiscover = \"./d\"\n";
  inputs.settings.clear();
  CHECK(contains(bad(inputs), "exclude each other"));
  inputs.file_text = "command = [\"./t\"]\n[hosts]\nshrink = \"./s\"\n";
  CHECK(contains(bad(inputs), "hosts.shrink = ./s (job.toml:3:1) needs hosts.expand"));
}

TEST_CASE("a cluster from a flag or the environment replaces the hosts of the config") {
  const std::string text = "command = [\"./t\"]\n[hosts]\nlist = [\"a:2\"]\nexpand = \"./e\"\nshrink = \"./s\"\n";
  ConfigInputs inputs = from_text(text);
  inputs.environment = {{"ELASTICTRAIN_CLUSTER", "lab"}};
  CHECK(good(inputs).config.cluster == "lab");
  CHECK(good(inputs).config.hosts.list.empty());
  CHECK(good(inputs).config.hosts.expand.empty());
  inputs.settings = {{"hosts.list", "b:2", "-H b:2"}};
  CHECK(contains(bad(inputs), "leases the run its hosts, so hosts.list = b:2 (-H b:2) must not be set"));
  CHECK(contains(bad(from_text("cluster = \"lab\"\n" + text)), "hosts.list = a:2 (job.toml:4:1) must not be set"));
}

TEST_CASE("only one policy decides on the size: two of one level are refused, and a flag replaces the file's") {
  const std::string head = "command = [\"./t\"]\n[policy]\n";
  ConfigInputs inputs = from_text(head + "library = \"p.so\"\nprogram = [\"sh\", \"p.sh\"]\n");
  CHECK(
      contains(bad(inputs),
               "policy.library = p.so (job.toml:3:1) and policy.program = sh p.sh (job.toml:4:1) exclude each other"));
  inputs.file_text = head + "argument = \"x\"\n";
  CHECK(contains(bad(inputs), "policy.argument = x (job.toml:3:1) needs policy.library"));
  inputs.file_text = head + "library = \"p.so\"\nargument = \"x\"\n";
  CHECK(good(inputs).config.policy.argument == "x");
  inputs.settings = {{"policy.name", "fixed", "--policy fixed"}};
  CHECK(good(inputs).config.policy.library.empty());
  CHECK(good(inputs).config.policy.argument.empty());
  inputs.file_text = head + "program = [\"python3\", \"a b.py\"]\n";
  CHECK(good(inputs).config.policy.program.empty());
  inputs.settings = {{"policy.timeout_ms", "50", "--set"}};
  CHECK(good(inputs).config.policy.program == std::vector<std::string>{"python3", "a b.py"});
  CHECK(good(inputs).config.policy.timeout_ms == 50);
}

TEST_CASE("a utility is a text or a list of points, and a mistake in it is reported with its place") {
  const std::string head = "command = [\"./t\"]\n[policy]\nname = \"cost\"\n[policy.cost]\n";
  const auto utility = [](const ConfigInputs& inputs) {
    return std::get<std::string>(good(inputs).config.policy.parameters.at("cost").at("utility"));
  };
  CHECK(utility(from_text(head + "utility = [[0, 100], [600.5, 100], [660, 0]]\n")) == "table:0:100,600.5:100,660:0");
  CHECK(utility(from_text(head + "utility = \"step:100:600,40:1200\"\n")) == "step:100:600,40:1200");
  CHECK(bad(from_text(head + "utility = [[0, 100], [600, 50], [60, 0]]\n")) ==
        "job.toml:5:1: policy.cost.utility is not usable: point 3: its seconds must be more than those of the one "
        "before");
  CHECK(bad(from_text(head + "utility = []\n")) ==
        "job.toml:5:1: policy.cost.utility is not usable: a point is SECONDS:VALUE, not \"\"");
  CHECK(contains(bad(from_text(head + "utility = \"liner:1,2\"\n")),
                 "job.toml:5:1: policy.cost.utility is not usable: a utility is linear:VALUE,SECONDS, step:"));
  for (const char* wrong : {"[[0, 100, 5]]", "[[0, \"a\"]]", "[3]", "7"}) {
    CAPTURE(wrong);
    CHECK(contains(bad(from_text(head + "utility = " + wrong + "\n")),
                   "policy.cost.utility must be text, or a list of pairs of numbers"));
  }
  CHECK(contains(bad(from_text("command = [\"./t\"]\n[policy.or]\nutility = \"step:1\"\n")),
                 "job.toml:3:1: policy.or.utility is not usable: a step is VALUE:SECONDS"));
}

TEST_CASE("a program for the utility needs a policy that has one; another policy by a flag does without it") {
  const std::string program = "utility_program = [\"python3\", \"worth.py\"]\n";
  const std::string head = "command = [\"./t\"]\n[policy]\n";
  ConfigInputs inputs = from_text(head + "name = \"or\"\n" + program);
  CHECK(good(inputs).config.policy.utility_program == std::vector<std::string>{"python3", "worth.py"});
  inputs.settings = {{"policy.name", "efficiency", "--policy efficiency"}};
  CHECK(good(inputs).config.policy.utility_program.empty());
  CHECK(contains(bad(from_text(head + program)),
                 "policy.utility_program = python3 worth.py (job.toml:3:1) needs policy.name = \"cost\" or \"or\""));
}

TEST_CASE("policies that do not decide on the size can be combined with one that does") {
  const std::string head = "command = [\"true\"]\n[policy]\nname = \"efficiency\"\n";
  ConfigInputs inputs = from_text(head + "beside = [\"adasgd\", \"interference\"]\n");
  CHECK(good(inputs).config.policy.beside == std::vector<std::string>{"adasgd", "interference"});
  inputs.file_text = head + "beside = [\"goodput\"]\n";
  CHECK(contains(bad(inputs), "decides on the size; policy.beside accepts noise-batch, adasgd, interference"));
  inputs.file_text = head + "beside = [\"adasdg\"]\n";
  CHECK(contains(bad(inputs), "is not a policy"));
  inputs.file_text = "command = [\"true\"]\n[policy]\nname = \"adasgd\"\nbeside = [\"adasgd\"]\n";
  CHECK(contains(bad(inputs), "is the same as policy.name"));
}

TEST_CASE("hosts, names, labels, ranks, signals and variables are checked where they are written") {
  const std::pair<const char*, const char*> cases[] = {{"name", "a/b"},
                                                       {"name", "-x"},
                                                       {"hosts.list", "a:0"},
                                                       {"hosts.list", "-oProxyCommand=x"},
                                                       {"hosts.list", "a:x"},
                                                       {"log.label", "{rnak}"},
                                                       {"log.show_ranks", "3-1"},
                                                       {"signals.forward", "KILL"},
                                                       {"environment.set", "1X=2"},
                                                       {"environment.pass", "A-B"},
                                                       {"network.listen", "localhost"},
                                                       {"network.interface", "-x"},
                                                       {"launcher.ssh_user", "a b"}};
  for (const auto& [key, text] : cases) {
    ConfigInputs inputs = from_program();
    inputs.settings = {{key, text, "--flag"}};
    CAPTURE(key);
    CAPTURE(text);
    CHECK(contains(bad(inputs), std::string("--flag: ") + key));
  }
}

TEST_CASE("IPv6 hosts are taken with and without slots") {
  ConfigInputs inputs = from_program();
  inputs.settings = {{"hosts.list", "fe80::1,[fe80::2]:3,node-4:8", "-H"}};
  CHECK(good(inputs).config.hosts.list.size() == 3);
}

TEST_CASE("variables for workers may be a list or a table") {
  const auto table = good(from_text("command = [\"./t\"]\n[environment]\nset = {A = \"1\", B = \"two words\"}\n"));
  CHECK(table.config.environment.set == std::vector<std::string>{"A=1", "B=two words"});
  const auto list = good(from_text("command = [\"./t\"]\n[environment]\nset = [\"A=1\"]\n"));
  CHECK(list.config.environment.set == std::vector<std::string>{"A=1"});
}

TEST_CASE("what starts nothing needs no program, but must make sense otherwise") {
  ConfigInputs inputs;
  CHECK(contains(bad(inputs), "nothing to run"));
  inputs.starts_nothing = true;
  CHECK(good(inputs).config.command.empty());
  inputs.settings = {{"workers.min", "3", "--min-np"}, {"workers.max", "2", "--max-np"}};
  CHECK(contains(bad(inputs), "workers.min = 3"));
}

TEST_CASE("a misspelt variable is named with what was meant, others are left alone") {
  const auto sentences = misspelt_variables({{"ELASTICTRAIN_BATCH_PER_WROKER", "3"},
                                             {"ELASTICTRAIN_BATCH_PER_WORKER", "3"},
                                             {"ELASTICTRAIN_STATE_DIR", "/tmp"},
                                             {"ELASTICTRAIN_BINARY", "x"},
                                             {"ELASTICTRAIN_BIND", "x"},
                                             {"ELASTICTRAIN_HEARTBEAT_MS", "1"},
                                             {"BATCH_PER_WROKER", "3"}});
  REQUIRE(sentences.size() == 1);
  CHECK(sentences[0] ==
        "the environment variable ELASTICTRAIN_BATCH_PER_WROKER sets nothing; did you mean "
        "ELASTICTRAIN_BATCH_PER_WORKER?");
}
