// `elastictrain submit`: a run becomes a job of a cluster.
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands/cluster_client.h"
#include "cli/commands/cluster_link.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/job_environment.h"
#include "cli/commands/live_run.h"
#include "cli/commands/program_word.h"
#include "cli/commands/resume.h"
#include "cli/commands/run_flags.h"
#include "cli/commands/run_plan.h"
#include "cli/config/text.h"
#include "launcher/process/process.h"
#include "launcher/python_command.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kSubmitDetails = R"(
  elastictrain submit job.toml
  elastictrain submit -n 1:8 --start 2 --name a -- python3 train.py
  elastictrain submit job.toml --priority 3 --job-deadline 2h --cluster lab

The config is read again when the job starts, in this directory. Of this environment the job gets what finds and sets
up programs (PATH, HOME, LANG, PYTHON*, CUDA_*, NCCL_*, …), and what -x or environment.pass name; variables that sound
like a secret only by their whole name. The cluster's journal holds them. A cluster of another user gets none of it:
there the run starts at once, as your own process, and waits for slots. A job that writes
checkpoints (checkpoint.directory) may be suspended; others keep at least workers.min slots once they train, unless
the cluster lets jobs stand still in memory (suspended_per_slot). If the length of a job is known, submit says whether
its deadline can be kept.

Exit status: 0 queued; 64 wrong usage; 66 a file cannot be read; 69 no such cluster, or it can never have so
many slots; 75 the queue, or your part of it (limits.queued), is full: submit again later; 77 not permitted; 78 a mistake
in the config, or a program that is not there.
)";

struct SubmitFlags {
  std::shared_ptr<RunFlags> run = std::make_shared<RunFlags>();
  std::string cluster;
};

int fail_submit(const std::string& text, int status) {
  std::cerr << "elastictrain submit: " << text << "\n";
  return status;
}

// Without "--" it is a script, or was found here (program_word.h). One that only the hosts have is written after "--".
Status check_program_here(const Invocation& invocation) {
  const bool anywhere = std::find(invocation.line.begin(), invocation.line.end(), "--") != invocation.line.end();
  if (invocation.program.empty() || anywhere) return {};
  const auto python = launcher::python_command(invocation.program);
  const std::string& word = python ? python->program.front() : invocation.program.front();
  const bool is_file = python ? word != "-m" : is_script(word);
  std::error_code failed;
  if (!is_file || std::filesystem::exists(word, failed) || failed) return {};
  return Error{ErrorCode::kInvalid, word +
                                        " does not exist here; a program that only the hosts have is written after "
                                        "--, e.g. -- " +
                                        invocation.program.front()};
}

// The command line without what is for `submit` alone, before the program.
std::vector<std::string> run_words(const std::vector<std::string>& line, std::size_t program_words) {
  std::vector<std::string> words;
  const std::size_t end = line.size() - std::min(line.size(), program_words);
  for (std::size_t place = 0; place < end; ++place) {
    const std::string& word = line[place];
    if (word == "--cluster") {
      ++place;
    } else if (!word.starts_with("--cluster=")) {
      words.push_back(word);
    }
  }
  words.insert(words.end(), line.begin() + static_cast<std::ptrdiff_t>(end), line.end());
  return words;
}

// What the cluster of another user is told: how many slots, which hosts. The program, its directory and its environment
// stay here, as does the run (start_here()).
nlohmann::json for_another_user(nlohmann::json job) {
  for (const char* own : {"arguments", "working_directory", "environment"}) job.erase(own);
  return job;
}

nlohmann::json job_of(const RunChoice& choice, const RunPlan& plan, const Invocation& invocation) {
  const auto& settings = plan.settings;
  const RunConfig& config = choice.config;
  std::vector<std::string> arguments = run_words(invocation.line, invocation.program.size());
  if (config.name.empty()) arguments.insert(arguments.begin(), {"--name", settings.run_name});
  const std::uint32_t most = most_slots(config.job, settings);
  nlohmann::json job = {{"name", settings.run_name},
                        {"arguments", arguments},
                        {"working_directory", choice.inputs.current_directory},
                        {"environment", job_environment(config.environment, launcher::own_environment())},
                        {"min", settings.min_workers},
                        {"max", most},
                        {"start", std::min(most, settings.start_workers)},
                        {"priority", static_cast<std::int32_t>(config.job.priority)},
                        {"suspends", !config.checkpoint.directory.empty()},
                        {"one_host", config.job.one_host},
                        {"most_hosts", config.job.most_hosts},
                        {"hosts", config.job.hosts}};
  if (config.job.deadline_s > 0) job["deadline_s"] = config.job.deadline_s;
  const std::uint64_t samples =
      config.use_trainer ? config.trainer.samples * config.trainer.epochs : config.policy.samples_total;
  if (samples > 0) job["samples_total"] = samples;
  return job;
}

// A run of a user that the cluster process does not belong to is that user's process.
int start_here(const nlohmann::json& job, const std::string& directory) {
  asio::io_context io;
  launcher::ProcessSpec spec;
  spec.argv = {"/proc/self/exe", "run"};
  for (const auto& word : job["arguments"]) spec.argv.push_back(word.get<std::string>());
  spec.environment =
      launcher::merge_environment(launcher::own_environment(), {"ELASTICTRAIN_CLUSTER=" + directory + "/"});
  spec.standard_output = launcher::Stream::kNull;
  spec.standard_error = launcher::Stream::kNull;
  spec.new_session = true;
  auto started = launcher::Process::spawn(io, spec, [](launcher::ExitStatus) {});
  if (!started.ok()) return fail_submit(started.error().message, kExitUnavailable);
  (*started)->let_live();
  const std::string name = job["name"];
  std::cout << name << " waits for slots as process " << (*started)->pid()
            << "; look: elastictrain queue, elastictrain status " << name << "\n";
  return kExitSuccess;
}

int submit_job(const SubmitFlags& flags, const Invocation& invocation) {
  const auto directory = find_cluster(flags.cluster);
  if (!directory.ok()) return fail_submit(directory.error().message, kExitUnavailable);
  if (flags.run->detach || flags.run->dry_run) return fail_submit("--detach and --dry-run are for run", kExitUsage);
  const Status here = check_program_here(invocation);
  if (!here.ok()) return fail_submit(here.error().message, kExitConfig);
  ::setenv("ELASTICTRAIN_CLUSTER", (*directory + "/").c_str(), 1);
  const auto chosen = choose_run(*flags.run, invocation.program);
  if (const auto* failed = std::get_if<ChoiceFailed>(&chosen)) return fail_submit(failed->text, failed->status);
  const RunChoice& choice = std::get<RunChoice>(chosen);
  const auto plan = make_plan(choice.config, choice.inputs);
  if (!plan.ok()) return fail_submit(plan.error().message, status_of_start(plan.error()));
  const nlohmann::json job = job_of(choice, *plan, invocation);
  const ClusterAnswer answer = ask_cluster(*directory + "/", [&job](bool own) {
    return nlohmann::json{{"command", "submit"}, {"job", own ? job : for_another_user(job)}};
  });
  if (answer.status == 0 && answer.object.value("start", "") == "self") return start_here(job, *directory);
  return show_answer("submit", answer);
}

}  // namespace

Command make_submit(Invocation& invocation) {
  const auto flags = std::make_shared<SubmitFlags>();
  std::vector<Argument> arguments = run_arguments(flags->run);
  const auto is_cluster = [](const Argument& one) { return one.names == "--cluster"; };
  arguments.erase(std::remove_if(arguments.begin(), arguments.end(), is_cluster), arguments.end());
  arguments.push_back(cluster_flag(flags->cluster).in("Job"));
  return {"submit",
          "give a run to a cluster, which starts it when it has slots for it",
          kGroupCluster,
          std::move(arguments),
          always(invocation, [flags, &invocation] { return submit_job(*flags, invocation); }),
          kSubmitDetails,
          true};
}

}  // namespace elastictrain::cli
