#include "supervisor/cluster/run_starter.h"

#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/post.hpp>

#include "launcher/process/process_identity.h"

namespace elastictrain::cluster {
namespace {

constexpr std::size_t kKeptBytes = 2000;
constexpr const char* kOwnProgram = "/proc/self/exe";

std::string own_program() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink(kOwnProgram, path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return path.empty() ? kOwnProgram : path;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end + 1 - (begin == std::string::npos ? 0 : begin + 1));
}

}  // namespace

struct RunStarter::Child {
  cluster_core::JobId job = 0;
  std::uint32_t attempt = 0;
  std::unique_ptr<launcher::Process> process;
  std::array<char, 4096> block{};
  std::string output;
  launcher::ExitStatus status;
  bool exited = false;
  bool silent = false;
  bool reported = false;
};

RunStarter::~RunStarter() {
  for (const auto& [job, child] : children_) child->reported = true;
}

void RunStarter::start(const cluster_core::Job& job, bool resume) {
  const auto child = std::make_shared<Child>();
  child->job = job.id;
  child->attempt = job.attempt;
  children_[job.id] = child;
  launcher::ProcessSpec spec;
  spec.argv = {own_program(), "run"};
  if (resume) {
    spec.argv.insert(spec.argv.end(), {"--resume", job.spec.name});
  } else {
    spec.argv.insert(spec.argv.end(), job.spec.arguments.begin(), job.spec.arguments.end());
  }
  std::vector<std::string> changes = job.spec.environment;
  changes.push_back("ELASTICTRAIN_CLUSTER=" + cluster_directory_ + "/");
  changes.push_back("ELASTICTRAIN_JOB=" + cluster_core::id_text(job.id));
  spec.environment = launcher::merge_environment(launcher::own_environment(), changes);
  spec.working_directory = job.spec.working_directory;
  spec.standard_output = launcher::Stream::kNull;
  spec.standard_error = launcher::Stream::kPipe;
  spec.new_session = true;
  auto started = launcher::Process::spawn(io_, spec, [this, weak = std::weak_ptr(child)](launcher::ExitStatus status) {
    const auto one = weak.lock();
    if (one == nullptr || one->reported) return;
    one->status = status;
    one->exited = true;
    report(one);
  });
  if (!started.ok()) {
    child->output = started.error().message;
    child->status.exit_code = 126;
    child->exited = child->silent = true;
    asio::post(io_, [this, weak = std::weak_ptr(child)] {
      if (const auto one = weak.lock(); one != nullptr && !one->reported) report(one);
    });
    return;
  }
  child->process = std::move(*started);
  child->process->let_live();
  read_error(child);
}

// Read to its end, so that the run never waits for it; the last words of a run that fails at once are kept.
void RunStarter::read_error(const std::shared_ptr<Child>& child) {
  child->process->error().async_read_some(
      asio::buffer(child->block), [this, weak = std::weak_ptr(child)](asio::error_code error, std::size_t count) {
        const auto one = weak.lock();
        if (one == nullptr || one->reported) return;
        if (error) {
          one->silent = true;
          return report(one);
        }
        one->output.append(one->block.data(), count);
        if (one->output.size() > 2 * kKeptBytes) one->output.erase(0, one->output.size() - kKeptBytes);
        read_error(one);
      });
}

// A process that the run left behind may keep the pipe open: its exit is enough.
void RunStarter::report(const std::shared_ptr<Child>& child) {
  if (!child->exited) return;
  child->reported = true;
  cluster_core::ProcessEnded ended;
  ended.job = child->job;
  ended.attempt = child->attempt;
  ended.by_signal = child->status.signal != 0;
  ended.status = ended.by_signal ? 128 + child->status.signal : child->status.exit_code;
  ended.text = last_line(child->output);
  const auto found = children_.find(child->job);
  if (found != children_.end() && found->second == child) children_.erase(found);
  ended_(ended);
}

void RunStarter::signal(const cluster_core::Job& job, int number) {
  const auto found = children_.find(job.id);
  if (found != children_.end() && found->second->process != nullptr) return found->second->process->signal(number);
  launcher::signal_marked(static_cast<pid_t>(job.pid), job.process_mark, number);
}

}  // namespace elastictrain::cluster
