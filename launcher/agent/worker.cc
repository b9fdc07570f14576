#include "launcher/agent/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/post.hpp>
#include <sstream>
#include <utility>

#include "launcher/agent_program.h"
#include "launcher/process/process_attributes.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileBytes = 256u << 10;
constexpr std::size_t kMaxErrorLines = 10;
constexpr std::size_t kMaxErrorLineBytes = 1000;

// A worker may have created anything there, even a FIFO: the read never blocks.
std::string read_start(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file < 0) return {};
  std::string text(kMaxFileBytes, '\0');
  std::size_t used = 0;
  while (used < text.size()) {
    const ssize_t count = ::read(file, text.data() + used, text.size() - used);
    if (count <= 0) break;
    used += static_cast<std::size_t>(count);
  }
  ::close(file);
  text.resize(used);
  return text;
}

// {"message": "…"} or {"message": {"message": "…", "extraInfo": {…}}}.
std::string message_in(const std::string& text) {
  const Json json = parse_json(text);
  if (!json.is_object() || !json.contains("message")) return text;
  const Json& message = json["message"];
  if (message.is_string()) return message.get<std::string>();
  if (message.is_object() && message.contains("message") && message["message"].is_string()) {
    return message["message"].get<std::string>();
  }
  return text;
}

}  // namespace

std::vector<std::string> read_error_file(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(message_in(read_start(path)));
  for (std::string line; lines.size() < kMaxErrorLines && std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) lines.push_back(line.substr(0, kMaxErrorLineBytes));
  }
  return lines;
}

namespace {

constexpr std::size_t kErrorLines = 20;
constexpr std::size_t kErrorLineBytes = 1000;
// A grandchild outside the group may hold the pipes; the report of the exit is not delayed longer than this.
constexpr std::chrono::milliseconds kOutputDrainTime{500};
// A worker that ends so soon after a process of its memory group was killed for want of memory ends because of that: it
// was the one, or missed it (a data loader), or the kernel ends whole groups.
constexpr std::chrono::seconds kOomKillCounts{2};
// Cores that are busy all the time must not keep a worker from being ready in time.
constexpr std::chrono::seconds kLongestBackground{20};

}  // namespace

ProcessSpec worker_process(const WorkerSetup& setup) {
  ProcessSpec spec;
  spec.argv = setup.order.argv;
  // The built-in trainer is this same binary, whose path differs from host to host.
  if (!spec.argv.empty() && spec.argv.front() == "@self") spec.argv.front() = self_path();
  spec.environment = setup.environment;
  spec.working_directory = setup.order.working_directory;
  spec.processors = setup.processors;
  spec.new_group = true;
  spec.kill_group_at_exit = true;
  spec.parent_death_signal = SIGTERM;
  spec.inherited_descriptors = setup.descriptors;
  spec.traceable = true;
  return spec;
}

WorkerProcess::WorkerProcess(asio::io_context& io, WorkerId id, WorkerHooks hooks)
    : io_(io), id_(id), hooks_(std::move(hooks)), kill_timer_(io), drain_timer_(io), background_timer_(io) {}

WorkerProcess::~WorkerProcess() {
  if (socket_) socket_->close();
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
  if (!error_file_.empty()) ::unlink(error_file_.c_str());
  if (!key_file_.empty()) ::unlink(key_file_.c_str());
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(asio::io_context& io, WorkerSetup setup, WorkerHooks hooks,
                                                            std::optional<ForkedChild> child) {
  auto worker = std::make_unique<WorkerProcess>(io, setup.order.worker, std::move(hooks));
  const Status begun = worker->begin(std::move(setup), std::move(child));
  if (!begun) return begun.error();
  return worker;
}

Status WorkerProcess::begin(WorkerSetup setup, std::optional<ForkedChild> child) {
  socket_path_ = setup.socket_path;
  error_file_ = setup.error_file;
  slot_ = setup.order.slot;
  ras_port_ = std::move(setup.ras_port);
  key_file_ = setup.key_file;
  replica_port_ = std::move(setup.replica_port);
  is_part_ = setup.order.replica.host > 0;
  WorkerSocket::Handlers handlers;
  handlers.on_message = [this](protocol::WorkerToAgent message) { hooks_.on_message(std::move(message)); };
  handlers.on_fault = [this](const std::string& fault) { report_fault(fault); };
  handlers.on_disconnect = [this] { finish_if_drained(); };
  handlers.may_read = hooks_.may_read;
  auto socket = WorkerSocket::open(io_, socket_path_, id_, std::move(handlers));
  if (!socket) return socket.error();
  socket_ = std::move(*socket);
  const bool in_background = setup.starts_in_background;
  const ProcessSpec spec = worker_process(setup);
  const auto on_exit = [this](ExitStatus status) { process_ended(status); };
  auto process = child ? Process::adopt(io_, std::move(*child), spec, on_exit) : Process::spawn(io_, spec, on_exit);
  if (!process) return process.error();
  process_ = std::move(*process);
  memory_ = MemoryGroup::of(pid());
  if (memory_) memory_kills_ = memory_->kills();
  if (in_background) start_in_background();
  output_ = make_pump(std::move(process_->output()), false);
  error_ = make_pump(std::move(process_->error()), true);
  return {};
}

std::unique_ptr<OutputPump> WorkerProcess::make_pump(asio::posix::stream_descriptor pipe, bool is_stderr) {
  OutputPump::Handlers handlers;
  if (is_stderr) handlers.on_line = [this](const std::string& line) { remember_error_line(line); };
  handlers.on_pending = [this] { hooks_.on_output(); };
  handlers.on_end = [this] { finish_if_drained(); };
  return std::make_unique<OutputPump>(io_, std::move(pipe), std::move(handlers));
}

void WorkerProcess::remember_error_line(const std::string& line) {
  last_error_lines_.push_back(line.substr(0, kErrorLineBytes));
  if (last_error_lines_.size() > kErrorLines) last_error_lines_.pop_front();
}

void WorkerProcess::report_fault(const std::string& fault) {
  error_->add_line("elastictrain agent: worker " + to_string(id_) + " " + fault);
  hooks_.on_output();
}

// It is no word of the program, so not why it may end.
void WorkerProcess::add_line(const std::string& text) {
  error_->buffer().push("elastictrain agent: " + text);
  hooks_.on_output();
}

void WorkerProcess::start_in_background() {
  in_background_ = true;
  put_into_background(pid());
  background_timer_.expires_after(kLongestBackground);
  background_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (!error && !life.expired()) end_background();
  });
}

void WorkerProcess::end_background() {
  if (!std::exchange(in_background_, false) || ended_) return;
  background_timer_.cancel();
  launcher::end_background(pid());
}

void WorkerProcess::end_in_background() {
  if (!ended_) put_into_background(pid());
}

void WorkerProcess::stop(std::chrono::milliseconds grace) {
  if (ended_) return;
  process_->signal_group(SIGTERM);
  const auto kill_at = std::chrono::steady_clock::now() + grace;
  if (kill_at >= kill_at_) return;
  kill_at_ = kill_at;
  kill_timer_.expires_at(kill_at);
  kill_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    // An expiry that was queued when the timer was cancelled arrives all the same.
    const bool is_due = !error && !life.expired() && std::chrono::steady_clock::now() >= kill_at_;
    if (is_due) process_->signal_group(SIGKILL);
  });
}

void WorkerProcess::park(WorkerHooks hooks) {
  kill_timer_.cancel();
  kill_at_ = std::chrono::steady_clock::time_point::max();
  hooks_ = std::move(hooks);
}

void WorkerProcess::reassign(WorkerId worker, WorkerHooks hooks) {
  id_ = worker;
  hooks_ = std::move(hooks);
  record_ = WorkerRecord();
  last_error_lines_.clear();
  socket_->belongs_to(worker);
  send(std::make_shared<const std::string>(protocol::encode_frame(protocol::WorkerDown(protocol::Reassigned{worker}))));
}

void WorkerProcess::look_at_memory() {
  if (!memory_) return;
  const std::uint64_t kills = memory_->kills();
  if (kills > memory_kills_) memory_killed_at_ = std::chrono::steady_clock::now();
  memory_kills_ = kills;
}

bool WorkerProcess::take_output(std::size_t max_bytes, protocol::WorkerOutput& output) {
  for (OutputPump* pump : {error_.get(), output_.get()}) {
    if (pump->buffer().empty() && !pump->has_progress()) continue;
    auto batch = pump->buffer().take(max_bytes);
    output = {id_, pump == error_.get(), std::move(batch.lines), batch.dropped, {}};
    if (pump->buffer().empty()) output.unfinished = pump->take_progress().value_or("");
    return true;
  }
  return false;
}

void WorkerProcess::process_ended(ExitStatus status) {
  ET_CHECK(!ended_, "a process ends once");
  ended_ = true;
  status_ = status;
  ended_at_ = std::chrono::steady_clock::now();
  look_at_memory();
  kill_timer_.cancel();
  socket_->drain();
  drain_timer_.expires_after(kOutputDrainTime);
  drain_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (!error && !life.expired()) finish();
  });
  finish_if_drained();
}

void WorkerProcess::finish_if_drained() {
  if (ended_ && output_->ended() && error_->ended() && socket_->drained()) finish();
}

// The error that the program itself reported comes first: its last lines may be unrelated.
std::vector<std::string> WorkerProcess::last_lines() const {
  std::vector<std::string> lines;
  const bool failed = status_.signal != 0 || status_.exit_code != 0;
  if (failed && !error_file_.empty()) lines = read_error_file(error_file_);
  lines.insert(lines.end(), last_error_lines_.begin(), last_error_lines_.end());
  return lines;
}

void WorkerProcess::finish() {
  if (finished_) return;
  finished_ = true;
  output_->finish();
  error_->finish();
  socket_->close();
  // Deferred: the caller may be one of this object's parts, and the owner destroys this object now.
  asio::post(io_, [this, life = std::weak_ptr<char>(life_)] {
    if (life.expired()) return;
    const auto on_exit = std::move(hooks_.on_exit);
    on_exit(exited());
  });
}

protocol::WorkerExited WorkerProcess::exited() {
  protocol::WorkerExited exited{id_, status_.exit_code, status_.signal, last_lines()};
  const bool failed = status_.signal != 0 || status_.exit_code != 0;
  exited.out_of_memory = failed && ended_at_ - kOomKillCounts <= memory_killed_at_;
  if (exited.out_of_memory) {
    exited.memory_limit_bytes = memory_->limit_bytes();
    exited.peak_bytes = status_.peak_bytes;
  }
  return exited;
}

}  // namespace elastictrain::launcher
