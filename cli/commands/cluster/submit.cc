#include "cli/commands/cluster/submit.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run/cluster_link.h"
#include "cli/commands/run/live_run.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run/run_plan.h"
#include "cli/commands/run_flags.h"
#include "cli/config/text.h"
#include "launcher/process/process.h"
#include "launcher/python_command.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kMaxVariableBytes = 64u << 10;

// A trailing * matches any suffix.
constexpr std::array<std::string_view, 39> kUsual{
    "PATH",    "HOME",    "USER",   "LOGNAME",       "SHELL",          "LANG",         "LANGUAGE",      "LC_*",
    "TZ",      "TMPDIR",  "TERM",   "SSH_AUTH_SOCK", "KUBECONFIG",     "XDG_*",        "PYTHON*",       "VIRTUAL_ENV",
    "CONDA_*", "MAMBA_*", "LD_*",   "CUDA_*",        "NVIDIA_*",       "NCCL_*",       "GLOO_*",        "OMP_*",
    "GOMP_*",  "KMP_*",   "MKL_*",  "OPENBLAS_*",    "UCX_*",          "FI_*",         "OMPI_*",        "MPICH_*",
    "I_MPI_*", "HF_*",    "TORCH*", "PYTORCH_*",     "TRANSFORMERS_*", "TOKENIZERS_*", "ELASTICTRAIN_*"};
constexpr std::array<std::string_view, 5> kSecretWords{"SECRET", "TOKEN", "PASSW", "KEY", "CREDENTIAL"};
// The shell's own, and the secret of an endpoint.
constexpr std::array<std::string_view, 3> kNever{"ELASTICTRAIN_SECRET", "ELASTICTRAIN_CLUSTER", "ELASTICTRAIN_JOB"};

bool is_usual(std::string_view name) {
  return std::any_of(kUsual.begin(), kUsual.end(), [name](std::string_view pattern) {
    return pattern.back() == '*' ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
  });
}

bool sounds_secret(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name.find("TOKENIZERS_") != 0 && std::any_of(kSecretWords.begin(), kSecretWords.end(),
                                                      [&](auto word) { return name.find(word) != std::string::npos; });
}

bool comes_along(const EnvironmentConfig& asked, const std::string& name) {
  if (std::find(kNever.begin(), kNever.end(), name) != kNever.end()) return false;
  if (std::find(asked.pass.begin(), asked.pass.end(), name) != asked.pass.end()) return true;
  const bool is_ours = name.starts_with("ELASTICTRAIN_");  // a path of a secret is none
  return is_ours || (!sounds_secret(name) && (is_usual(name) || is_passed(asked, name)));
}

}  // namespace

std::vector<std::string> job_environment(const EnvironmentConfig& asked, const std::vector<std::string>& ours) {
  std::vector<std::string> variables;
  for (const std::string& one : ours) {
    if (one.size() < kMaxVariableBytes && comes_along(asked, one.substr(0, one.find('=')))) variables.push_back(one);
  }
  return variables;
}

// `elastictrain submit`: a run becomes a job of a cluster.
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

// Without "--" it is a script, or was found here (run_flags.h). One that only the hosts have is written after "--".
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
