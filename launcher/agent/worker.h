// Purpose: one worker of a host: its process, pipes, socket and exit, and the error file that a failed program
// leaves.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/output_pump.h"
#include "launcher/agent/ras_client.h"
#include "launcher/agent/worker_record.h"
#include "launcher/agent/worker_socket.h"
#include "launcher/process/memory_group.h"
#include "launcher/process/process.h"
#include "supervisor/protocol/agent_messages.h"

// Reads what a failed program wrote to TORCHELASTIC_ERROR_FILE (torch's @record decorator does), as lines for
// people. Any text is accepted; JSON in torch's form is parsed.
//
// Thread: any; reads a file of bounded size. Errors: no lines if there is no file or it is empty.

namespace elastictrain::launcher {

std::vector<std::string> read_error_file(const std::string& path);

// One worker of this host: its process in a group of its own, its two pipes, its socket, its exit. A process
// of an MPI pool, or one that a shrink lets go, may park and be another worker later.
//
// Ownership: the agent's service owns it and destroys it after on_exit. Thread: the io_context's thread.
// Errors: start() reports why there is no process; later events go to the hooks.

struct WorkerSetup {
  protocol::SpawnWorker order;
  std::vector<std::string> environment;  // complete
  std::string socket_path;
  std::string error_file;             // what the program may write when it fails
  std::vector<int> descriptors = {};  // of the agent, kept open in the process
  std::vector<int> processors = {};   // that it may use; empty: all of the agent's
  ReservedPort ras_port = {};         // for its NCCL's RAS service; none if the user has configured that
  bool starts_in_background = false;  // until it is ready, because others here train
  std::string key_file = {};          // of a worker on several hosts; empty: of this one only
  ReservedPort replica_port = {};     // where it listens for its processes on the other hosts
};

// What is started for it.
ProcessSpec worker_process(const WorkerSetup& setup);

struct WorkerHooks {
  std::function<void(protocol::WorkerToAgent)> on_message;
  std::function<void()> on_output;                      // lines wait in take_output()
  std::function<void(protocol::WorkerExited)> on_exit;  // once, after the pipes are drained
  std::function<bool()> may_read;
};

class WorkerProcess {
 public:
  // `child`: of the fork server, forked for this worker; otherwise its process is started.
  static Result<std::unique_ptr<WorkerProcess>> start(asio::io_context& io, WorkerSetup setup, WorkerHooks hooks,
                                                      std::optional<ForkedChild> child = std::nullopt);

  WorkerId id() const { return id_; }
  std::uint32_t slot() const { return slot_; }
  pid_t pid() const { return process_->pid(); }
  // The process that trains: the one that sent messages, otherwise the one that was started (which may be a shell).
  pid_t training_pid() const { return socket_->peer_pid() > 0 ? socket_->peer_pid() : pid(); }
  bool is_elastic() const { return record_.has_greeted(); }
  bool has_finished() const { return record_.has_finished(); }
  // It was told to end, and has not been parked since.
  bool is_stopping() const { return kill_at_ != std::chrono::steady_clock::time_point::max(); }
  std::uint16_t ras_port() const { return ras_port_.number(); }
  // The process belongs to a worker of another host.
  bool is_part() const { return is_part_; }
  // Where it listens for its processes on other hosts; empty: it has none there.
  const std::string& replica_address() const { return replica_port_.address(); }
  WorkerRecord& record() { return record_; }
  // For the owner, when the worker has ended.
  WorkerRecord take_record() { return std::move(record_); }

  void send(std::shared_ptr<const std::string> frame) { socket_->send(std::move(frame)); }
  void signal(int number) { process_->signal_group(number); }
  // TERM to the group now, KILL after the grace. A shorter grace shortens one that is running.
  void stop(std::chrono::milliseconds grace);
  // A line of the agent's among those that the program writes to stderr.
  void add_line(const std::string& text);
  // It is ready, so the others wait for it from now on.
  void end_background();
  // It has left: what its process still does takes no time from the others.
  void end_in_background();
  // The worker has ended, its process waits: a stop in progress is cancelled. `hooks` receive only events of the
  // process.
  void park(WorkerHooks hooks);
  // The parked process is this worker from here on.
  void reassign(WorkerId worker, WorkerHooks hooks);
  // To be called regularly: when its group's processes were last ended for want of memory.
  void look_at_memory();
  // The next batch of output lines, oldest stream first, or the state of a progress bar; false if there is none.
  bool take_output(std::size_t max_bytes, protocol::WorkerOutput& output);

  WorkerProcess(asio::io_context& io, WorkerId id, WorkerHooks hooks);
  ~WorkerProcess();

 private:
  Status begin(WorkerSetup setup, std::optional<ForkedChild> child);
  void start_in_background();
  std::unique_ptr<OutputPump> make_pump(asio::posix::stream_descriptor pipe, bool is_stderr);
  void remember_error_line(const std::string& line);
  std::vector<std::string> last_lines() const;
  protocol::WorkerExited exited();
  void report_fault(const std::string& fault);
  void process_ended(ExitStatus status);
  void finish_if_drained();
  void finish();

  asio::io_context& io_;
  WorkerId id_;
  std::uint32_t slot_ = 0;
  WorkerHooks hooks_;
  WorkerRecord record_;
  std::unique_ptr<Process> process_;
  std::shared_ptr<WorkerSocket> socket_;
  std::string socket_path_;
  std::string error_file_;
  ReservedPort ras_port_;
  std::string key_file_;
  ReservedPort replica_port_;
  bool is_part_ = false;
  std::unique_ptr<OutputPump> output_;
  std::unique_ptr<OutputPump> error_;
  std::deque<std::string> last_error_lines_;
  asio::steady_timer kill_timer_;
  asio::steady_timer drain_timer_;
  asio::steady_timer background_timer_;
  std::chrono::steady_clock::time_point kill_at_ = std::chrono::steady_clock::time_point::max();
  ExitStatus status_;
  std::chrono::steady_clock::time_point ended_at_;
  std::optional<MemoryGroup> memory_;  // of its process, as it started
  std::uint64_t memory_kills_ = 0;     // there, at the last look
  std::chrono::steady_clock::time_point memory_killed_at_ = std::chrono::steady_clock::time_point::min();
  bool ended_ = false;
  bool finished_ = false;
  bool in_background_ = false;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::launcher
