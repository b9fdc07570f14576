// The run that `run --resume` chooses from a command line and the records of earlier runs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/app.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run/resume.h"
#include "cli/config/load.h"
#include "tests/support/contains.h"

using namespace elastictrain;
using namespace elastictrain::cli;

namespace {

using elastictrain::test::contains;

// A state directory of its own. The destructor restores the current directory.
struct State {
  State() : start(std::filesystem::current_path()) {
    char name[] = "/tmp/elastictrain-resume-XXXXXX";
    root = ::mkdtemp(name);
    ::setenv("ELASTICTRAIN_STATE_DIR", root.c_str(), 1);
  }
  ~State() {
    std::filesystem::current_path(start);
    ::unsetenv("ELASTICTRAIN_STATE_DIR");
    std::filesystem::remove_all(root);
  }

  // The record of a run that was started in `directory`.
  void leave(const std::string& name, const RunConfig& config, const std::string& directory,
             std::optional<RunRecord::End> end = std::nullopt) {
    std::filesystem::create_directories(root + "/" + name);
    RunRecord record;
    record.run_name = name;
    record.version = "1";
    record.config = encode_recorded({config, directory, {{"NCCL_DEBUG", "INFO"}, {"SECRET", "x"}}});
    record.end = std::move(end);
    REQUIRE(save_run_record(root + "/" + name, record).ok());
  }

  std::filesystem::path start;
  std::string root;
};

RunConfig sleeper() {
  RunConfig config;
  config.name = "job";
  config.command = {"sleep", "two words", "a,b"};
  config.workers = {.min = 2, .start = 3, .max = 4};
  config.environment.pass = {"NCCL_*"};
  config.failures.max_crashes = kNoLimit;
  return config;
}

RunChoice chosen(const RunFlags& flags, const std::vector<std::string>& program = {}) {
  const auto choice = choose_run(flags, program);
  if (const auto* failed = std::get_if<ChoiceFailed>(&choice)) FAIL(failed->text);
  return std::get<RunChoice>(choice);
}

ChoiceFailed refused(const RunFlags& flags, const std::vector<std::string>& program = {}) {
  const auto choice = choose_run(flags, program);
  const auto* failed = std::get_if<ChoiceFailed>(&choice);
  return failed == nullptr ? ChoiceFailed{"(accepted)", 0} : *failed;
}

RunFlags resume(const std::string& name = "") {
  RunFlags flags;
  flags.resume = true;
  flags.resume_name = name;
  return flags;
}

}  // namespace

TEST_CASE("a configuration comes back from its snapshot as it was") {
  RunConfig config = sleeper();
  config.hosts.list = {"a:1", "b:2"};
  config.environment.set = {"A=x,y z"};
  config.failures.on_failure = OnFailureChoice::kShrink;
  config.launcher.ssh_args = {"-o", "A B"};
  config.log.timestamp = true;
  const auto back = config_of_snapshot(snapshot_of(config));
  REQUIRE(back.ok());
  CHECK(back->command == config.command);
  CHECK(back->environment.set == config.environment.set);
  CHECK(back->launcher.ssh_args == config.launcher.ssh_args);
  CHECK(back->failures.max_crashes == kNoLimit);
  CHECK(find_differences(config, *back).empty());
  CHECK(snapshot_of(*back) == snapshot_of(config));
  RunConfig trainer;
  trainer.use_trainer = true;
  trainer.trainer.epochs = 7;
  trainer.trainer.hidden = {64, 32};
  const auto trainer_back = config_of_snapshot(snapshot_of(trainer));
  REQUIRE(trainer_back.ok());
  CHECK(trainer_back->use_trainer);
  CHECK(trainer_back->trainer.hidden == trainer.trainer.hidden);
  for (const char* wrong : {"", "[]", "{}", R"({"uses_trainer":false,"no.such":1})",
                            R"({"uses_trainer":false,"workers.min":-1})", R"({"uses_trainer":false,"name":[1]})"}) {
    CAPTURE(wrong);
    CHECK(!config_of_snapshot(wrong).ok());
  }
}

TEST_CASE("the one run that lost its supervisor is resumed with its own configuration, directory and variables") {
  State state;
  const std::string home = state.root + "/home";
  std::filesystem::create_directory(home);
  state.leave("job", sleeper(), home);
  state.leave("done", sleeper(), home, RunRecord::End{0, "finished"});
  RunFlags flags = resume();
  flags.settings = {{"failures.max_crashes", "5", "--max-restarts 5"}};
  const RunChoice choice = chosen(flags);
  CHECK(choice.start == RunStart::kTakeOver);
  CHECK(choice.config.name == "job");
  CHECK(choice.config.command == sleeper().command);
  CHECK(choice.config.failures.max_crashes == 5);
  CHECK(choice.inputs.environment.size() == 1);  // only the variables passed to workers are stored
  CHECK(choice.inputs.environment.front().second == "INFO");
  CHECK(std::filesystem::current_path() == home);
}

TEST_CASE("each job of a cluster has a directory of checkpoints of its own") {
  RunConfig config = sleeper();
  CHECK(checkpoint_directory_of(config, "a") == "");
  config.checkpoint.directory = "saved";
  CHECK(checkpoint_directory_of(config, "a") == "saved");
  config.cluster = "lab";
  CHECK(checkpoint_directory_of(config, "a") == "saved/a");
  config.checkpoint.adopt = true;
  CHECK(checkpoint_directory_of(config, "a") == "saved");
  config.checkpoint = {.directory = "{run}/of/{run}"};
  CHECK(checkpoint_directory_of(config, "a") == "a/of/a");
  config.cluster.clear();
  CHECK(checkpoint_directory_of(config, "a") == "a/of/a");
  config.checkpoint.directory.clear();
  config.cluster = "lab";
  CHECK(checkpoint_directory_of(config, "a") == "");
}

TEST_CASE("what cannot be resumed is refused with what to do") {
  State state;
  const std::string here = std::filesystem::current_path();
  CHECK(contains(refused(resume()).text, "no run can be resumed"));
  CHECK(contains(refused(resume("job")).text, "cannot resume run job"));
  CHECK(refused(resume("job")).status == kExitUnavailable);
  state.leave("job", sleeper(), here);
  state.leave("other", sleeper(), here);
  CHECK(contains(refused(resume()).text, "name one with --resume NAME: job, other"));
  state.leave("job", sleeper(), here, RunRecord::End{0, "training finished"});
  CHECK(contains(refused(resume("job")).text, "training finished (status 0); there is nothing to resume"));
  state.leave("job", sleeper(), here, RunRecord::End{.reason = "stopped by the user", .can_continue = true});
  CHECK(contains(refused(resume("job")).text, "no checkpoint.directory"));
  state.leave("job", sleeper(), here, RunRecord::End{75, "preempted"});
  CHECK(contains(refused(resume("job")).text, "no checkpoint.directory"));
  state.leave("job", sleeper(), state.root + "/no-such-directory");
  CHECK(contains(refused(resume("job")).text, "no-such-directory, no longer exists"));
  std::ofstream(state.root + "/job/run.json") << "{";
  CHECK(contains(refused(resume("job")).text, "cannot be read as the record of a run"));
}

TEST_CASE("a run that ended early continues from its checkpoints") {
  State state;
  RunConfig config = sleeper();
  config.checkpoint.directory = "/data/ck";
  state.leave("job", config, std::filesystem::current_path(), RunRecord::End{75, "preempted"});
  CHECK(chosen(resume("job")).start == RunStart::kStartAgain);
}

TEST_CASE("the same command again takes its run over, another one under that name is refused with what differs") {
  State state;
  const std::string here = std::filesystem::current_path();
  state.leave("job", sleeper(), here);
  RunFlags flags;
  flags.settings = {{"name", "job", "--name job"}};
  CHECK(chosen(flags, sleeper().command).start == RunStart::kTakeOver);
  const ChoiceFailed other = refused(flags, {"true"});
  CHECK(other.status == kExitUnavailable);
  CHECK(contains(other.text, "command was sleep two words a,b, is true"));
  CHECK(contains(other.text, "elastictrain run --resume job"));
  flags.settings.push_back({"hosts.list", "b:4", "-H b:4"});
  CHECK(contains(refused(flags, sleeper().command).text, "hosts.list was nothing, is b:4"));
  flags.settings.pop_back();
  state.leave("job", sleeper(), "/elsewhere");
  CHECK(contains(refused(flags, sleeper().command).text, "it was started in /elsewhere"));
  state.leave("job", sleeper(), here, RunRecord::End{0, "finished"});
  CHECK(chosen(flags, {"true"}).start == RunStart::kFresh);
  RunFlags both = resume("job");
  both.settings = {{"name", "another", "--name another"}};
  CHECK(contains(refused(both).text, "name different runs"));
}

TEST_CASE("--resume takes a name or none, and a config file behind it stays one") {
  using Words = std::vector<std::string>;
  Invocation invocation;
  const std::vector<Command> commands = all_commands(invocation);
  Words program;
  CHECK(prepare_arguments(commands, {"run", "--resume"}, program) == Words{"run", "--resume=."});
  CHECK(prepare_arguments(commands, {"run", "--resume", "job"}, program) == Words{"run", "--resume", "job"});
  CHECK(prepare_arguments(commands, {"run", "--resume", "job.toml"}, program) ==
        Words{"run", "--resume=.", "job.toml"});
  CHECK(prepare_arguments(commands, {"run", "--resume", "--dry-run"}, program) ==
        Words{"run", "--resume=.", "--dry-run"});
}
