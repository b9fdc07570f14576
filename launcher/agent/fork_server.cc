#include "launcher/agent/fork_server.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/error_code.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "launcher/text.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {
namespace {

constexpr const char* kModule = "elastictrain._fork_server";
constexpr std::size_t kMaxTextBytes = 4096;
constexpr int kDescriptors = 5;
constexpr std::chrono::milliseconds kServerDrainTime{500};

struct SocketPair {
  Fd own;
  Fd other;
};

// Each message is read as it was written.
Result<SocketPair> open_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("cannot make a socket", errno);
  }
  SocketPair pair;
  pair.own.reset(ends[0]);
  pair.other.reset(ends[1]);
  return pair;
}

// A file in memory takes any length, which a message does not.
Result<Fd> file_with(const std::string& text) {
  Fd file(::memfd_create("request", MFD_CLOEXEC));
  if (file.get() < 0) return system_error("cannot make a file in memory", errno);
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(file.get(), text.data() + written, text.size() - written);
    if (count < 0) return system_error("cannot write a file in memory", errno);
    written += static_cast<std::size_t>(count);
  }
  return file;
}

// Unavailable: the server has ended, or is about to.
Status send_descriptors(int channel, const std::array<int, kDescriptors>& descriptors) {
  char byte = 'f';
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  if (::sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return {};
  const bool is_closed = errno == EPIPE || errno == ECONNRESET || errno == ECONNREFUSED;
  if (is_closed) return Error{ErrorCode::kUnavailable, "the fork server has closed its socket"};
  return system_error("cannot ask the fork server", errno);
}

// Empty: the other end is closed. Nothing: there is no message.
std::optional<std::string> receive(int socket) {
  std::string text(kMaxTextBytes, '\0');
  const ssize_t count = ::recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return text;
}

// Null-terminated, since words and variables may hold any other byte: this process, the directory, the processors, the
// number of words of the program, these, the environment.
std::string request_text(const ProcessSpec& spec, const std::vector<std::string>& program) {
  std::string processors;
  for (const int processor : spec.processors) {
    processors += (processors.empty() ? "" : ",") + std::to_string(processor);
  }
  std::string text;
  const auto add = [&](const std::string& field) { text.append(field.c_str()).push_back('\0'); };
  add(std::to_string(::getpid()));
  add(spec.working_directory);
  add(processors);
  add(std::to_string(program.size()));
  for (const std::string& word : program) add(word);
  for (const std::string& variable : spec.environment) add(variable);
  return text;
}

std::string how_it_ended(ExitStatus status) {
  if (status.signal != 0) return "it ended by signal " + std::to_string(status.signal);
  return "it ended with status " + std::to_string(status.exit_code);
}

}  // namespace

ForkServer::ForkServer(asio::io_context& io, const ForkServerSetup& setup, Tell tell)
    : io_(io),
      tell_(std::move(tell)),
      time_limit_(setup.time_limit),
      modules_(join_with_commas(setup.modules)),
      channel_(io),
      answer_(io),
      deadline_(io) {}

ForkServer::~ForkServer() = default;

Result<std::unique_ptr<ForkServer>> ForkServer::start(asio::io_context& io, const ForkServerSetup& setup, Tell tell) {
  auto server = std::make_unique<ForkServer>(io, setup, std::move(tell));
  if (const Status begun = server->begin(setup); !begun) return begun.error();
  return server;
}

Status ForkServer::begin(const ForkServerSetup& setup) {
  auto sockets = open_sockets();
  if (!sockets) return sockets.error();
  ProcessSpec spec;
  spec.argv = setup.command.interpreter;
  spec.argv.insert(spec.argv.end(), {"-m", kModule, std::to_string(sockets->other.get()), modules_, "--"});
  spec.argv.insert(spec.argv.end(), setup.command.program.begin(), setup.command.program.end());
  spec.environment = setup.environment;
  spec.working_directory = setup.working_directory;
  spec.standard_output = Stream::kNull;
  spec.new_group = true;
  spec.parent_death_signal = SIGKILL;
  spec.inherited_descriptors = {sockets->other.get()};
  auto process = Process::spawn(io_, spec, [this](ExitStatus status) { ended(status); });
  if (!process) return process.error();
  process_ = std::move(*process);
  OutputPump::Handlers handlers;
  handlers.on_line = [this](const std::string& line) {
    last_line_ = line;
    tell_.said(line);
  };
  handlers.on_pending = [this] { (void)error_->buffer().take(kMaxTextBytes); };
  handlers.on_end = [this] { error_ended(); };
  error_ = std::make_unique<OutputPump>(io_, std::move(process_->error()), std::move(handlers));
  channel_.assign(sockets->own.release());
  watch_channel();
  limit_wait("import " + modules_);
  return {};
}

void ForkServer::fork(const ProcessSpec& spec, const std::vector<std::string>& program, Done done) {
  auto streams = open_streams(spec);
  if (!streams) return done(streams.error());
  requests_.push_back({request_text(spec, program), std::move(*streams), std::move(done)});
  serve_next();
}

void ForkServer::watch_channel() {
  channel_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
                        if (!error && !life.expired()) channel_readable();
                      });
}

void ForkServer::channel_readable() {
  const auto text = receive(channel_.native_handle());
  if (!text) return watch_channel();
  if (text->empty()) return;  // its exit follows
  if (text->front() == 'E') return give_up(text->substr(1));
  deadline_.cancel();
  state_ = State::kReady;
  const auto spent = std::chrono::steady_clock::now() - begun_;
  tell_.said("imported " + modules_ + " in " +
             protocol::duration_text(std::chrono::duration_cast<std::chrono::milliseconds>(spent)) +
             "; workers of this host are forked from process " + std::to_string(pid()));
  watch_channel();
  serve_next();
}

void ForkServer::serve_next() {
  while (state_ == State::kReady && how_ended_.empty() && !answer_.is_open() && !requests_.empty()) {
    const Status sent = send(requests_.front());
    if (sent) return;
    if (sent.error().code == ErrorCode::kUnavailable) return limit_wait("fork a worker");  // its exit says why
    const Done done = std::move(requests_.front().done);
    requests_.pop_front();
    done(sent.error());
  }
}

Status ForkServer::send(Request& request) {
  auto sockets = open_sockets();
  if (!sockets) return sockets.error();
  const auto file = file_with(request.text);
  if (!file) return file.error();
  const auto& streams = request.streams.child;
  const Status sent = send_descriptors(channel_.native_handle(), {file->get(), streams[0].get(), streams[1].get(),
                                                                  streams[2].get(), sockets->other.get()});
  if (!sent) return sent;
  for (Fd& stream : request.streams.child) stream.reset(-1);
  answer_.assign(sockets->own.release());
  watch_answer();
  limit_wait("fork a worker");
  return {};
}

void ForkServer::watch_answer() {
  answer_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
                       if (!error && !life.expired()) answered();
                     });
}

void ForkServer::answered() {
  const auto text = receive(answer_.native_handle());
  if (!text) return watch_answer();
  if (text->empty()) return await_end();
  if (how_ended_.empty()) deadline_.cancel();
  const auto pid = parse_number<pid_t>(*text);
  pid&&* pid > 0 ? answer(*pid, "") : answer(0, text->substr(1));
}

// Nobody has answered: what was forked has ended before it ran, or this whole process has, whose exit follows and says
// why.
void ForkServer::await_end() {
  if (!how_ended_.empty()) return;
  deadline_.expires_after(kServerDrainTime);
  deadline_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    const bool is_due = !error && !life.expired() && how_ended_.empty() && state_ == State::kReady;
    if (is_due) answer(0, "it ended before it ran");
  });
}

// Without a process: `problem` says why.
void ForkServer::answer(pid_t pid, const std::string& problem) {
  ET_CHECK(!requests_.empty(), "a fork server answers what it was asked");
  Request request = std::move(requests_.front());
  requests_.pop_front();
  Fd own(answer_.release());
  // Its worker begins before the next one is forked; `this` may be gone then.
  const std::weak_ptr<char> life = life_;
  if (pid > 0) {
    request.done(ForkedChild{pid, std::move(request.streams), std::move(own)});
  } else {
    request.done(Error{ErrorCode::kIo, "this worker could not be forked and imports by itself: " + problem});
  }
  if (!life.expired()) serve_next();
}

void ForkServer::limit_wait(const std::string& what) {
  deadline_.expires_after(time_limit_);
  deadline_.async_wait([this, what, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    const bool is_due = !error && !life.expired() && std::chrono::steady_clock::now() >= deadline_.expiry();
    if (is_due) give_up("it did not " + what + " within " + protocol::duration_text(time_limit_));
  });
}

// What it wrote last may say why. A process that it has started may hold the pipe open.
void ForkServer::ended(ExitStatus status) {
  how_ended_ = how_it_ended(status);
  if (error_->ended()) return error_ended();
  deadline_.expires_after(kServerDrainTime);
  deadline_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (!error && !life.expired()) error_ended();
  });
}

void ForkServer::error_ended() {
  if (!how_ended_.empty()) give_up(how_ended_ + (last_line_.empty() ? "" : " (" + last_line_ + ")"));
}

// The requests are answered last: what they call may end this object.
void ForkServer::give_up(const std::string& reason) {
  if (std::exchange(state_, State::kEnded) == State::kEnded) return;
  deadline_.cancel();
  asio::error_code ignored;
  channel_.close(ignored);
  answer_.close(ignored);
  process_->signal(SIGKILL);
  tell_.given_up("workers.preload: no worker of this host is forked from a process that has imported " + modules_ +
                 ": " + reason + ". Each imports by itself");
  std::deque<Request> left = std::move(requests_);
  requests_.clear();
  for (Request& request : left) request.done(Error{ErrorCode::kUnavailable, reason});
}

}  // namespace elastictrain::launcher
