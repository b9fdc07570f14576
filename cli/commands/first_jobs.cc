#include "cli/commands/first_jobs.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

namespace elastictrain::cli {

FirstJobs::FirstJobs(asio::io_context& io, std::vector<JobOfFile> jobs, std::string directory,
                     std::string config_directory, std::function<void(const std::string&)> say)
    : io_(io),
      left_(std::move(jobs)),
      directory_(std::move(directory)),
      config_directory_(std::move(config_directory)),
      say_(std::move(say)) {
  std::reverse(left_.begin(), left_.end());
}

void FirstJobs::submit(const std::map<jobs::JobId, jobs::Job>& known) {
  std::erase_if(left_, [&](const JobOfFile& job) {
    return std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.second.spec.name == job.name; });
  });
  submit_next();
}

std::vector<std::string> FirstJobs::command(const JobOfFile& job) const {
  std::vector<std::string> words = {"/proc/self/exe", "submit", "--name", job.name, "--cluster", directory_ + "/"};
  if (job.priority != 0) words.push_back("--priority=" + std::to_string(job.priority));
  if (!job.config.empty()) words.push_back(job.config);
  words.insert(words.end(), job.arguments.begin(), job.arguments.end());
  return words;
}

void FirstJobs::submit_next() {
  if (left_.empty()) return;
  const JobOfFile job = std::move(left_.back());
  left_.pop_back();
  launcher::ProcessSpec spec;
  spec.argv = command(job);
  spec.environment = launcher::own_environment();
  spec.working_directory = config_directory_;
  spec.standard_output = launcher::Stream::kNull;
  spec.standard_error = launcher::Stream::kInherit;
  auto started = launcher::Process::spawn(io_, spec, [this, name = job.name](launcher::ExitStatus status) {
    if (status.signal != 0 || status.exit_code != 0) say_("job " + name + " of the cluster's file was not submitted");
    // Not here: the process that has ended must not be destroyed in its own handler.
    asio::post(io_, [this] { submit_next(); });
  });
  if (!started.ok()) return say_("job " + job.name + " of the cluster's file: " + started.error().message);
  process_ = std::move(*started);
}

}  // namespace elastictrain::cli
