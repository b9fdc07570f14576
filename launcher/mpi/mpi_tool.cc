#include "launcher/mpi/mpi_tool.h"

#include <asio/io_context.hpp>
#include <algorithm>
#include <numeric>

#include "launcher/process/command.h"

namespace elastictrain::launcher {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

// The first field of the text that begins with a digit, at or after `from`.
std::string number_after(const std::string& text, std::size_t from) {
  const std::size_t begin = text.find_first_of("0123456789", from);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_first_of(" \t\r\n,", begin) - begin);
}

std::uint32_t count_slots(const std::vector<Host>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0u,
                         [](std::uint32_t sum, const Host& h) { return sum + h.slots; });
}

// "a:2,b:2", which both Open MPI and Hydra accept.
std::string host_list(const std::vector<Host>& hosts, bool with_slots) {
  Words words;
  for (const Host& host : hosts) words.push_back(host.name + (with_slots ? ":" + std::to_string(host.slots) : ""));
  return joined(words, ",");
}

// Some options are an error if they are given twice, by the user and here.
bool says(const MpiTool& tool, const char* word) {
  return std::find(tool.command.begin(), tool.command.end(), word) != tool.command.end();
}

void add_parameter(Words& words, const MpiTool& tool, const char* name, const std::string& value) {
  if (!value.empty() && !says(tool, name)) words.insert(words.end(), {"--mca", name, value});
}

// Open MPI's mpirun may end all processes when an ssh exits; with -f, ssh runs in the background, unwatched.
std::string remote_shell_agent(Words ssh) {
  if (!ssh.empty()) ssh.insert(ssh.begin() + 1, "-f");
  return joined(ssh, " ");
}

// With a binding to one core, a rank's agent and all its worker's threads would share it.
void add_open_mpi(Words& words, const MpiTool& tool, const MpiSurroundings& around, const std::vector<Host>& hosts) {
  if (around.is_root) words.push_back("--allow-run-as-root");
  if (around.shares_cores) add_parameter(words, tool, "mpi_yield_when_idle", "1");
  add_parameter(words, tool, "plm_rsh_agent", remote_shell_agent(around.ssh));
  add_parameter(words, tool, "oob_tcp_if_include", around.interface);
  add_parameter(words, tool, "btl_tcp_if_include", around.interface);
  words.insert(words.end(), {"--bind-to", "none", "--map-by", "slot", "--host", host_list(hosts, true)});
}

// Hydra's proxies connect back by name, which other hosts may be unable to resolve.
void add_hydra(Words& words, const MpiTool& tool, const MpiSurroundings& around, const std::vector<Host>& hosts) {
  if (!around.ssh.empty()) {
    const Words options(around.ssh.begin() + 1, around.ssh.end());
    words.insert(words.begin(), {"env", "HYDRA_LAUNCHER_EXTRA_ARGS=" + joined(options, " ")});
    if (around.ssh.front() != "ssh") words.insert(words.end(), {"-launcher-exec", around.ssh.front()});
  }
  if (!around.own_address.empty() && !says(tool, "-localhost")) {
    words.insert(words.end(), {"-localhost", around.own_address});
  }
  words.insert(words.end(), {"-hosts", host_list(hosts, true)});
}

void add_srun(Words& words, const std::vector<Host>& hosts) {
  words.insert(words.end(), {"--overlap", "--mem=0", "--cpu-bind=none", "--wait=0", "--kill-on-bad-exit=0", "--quiet",
                             "--job-name=elastictrain", "--nodes=" + std::to_string(hosts.size()),
                             "--nodelist=" + host_list(hosts, false)});
  const bool even = std::all_of(hosts.begin(), hosts.end(), [&](const Host& h) { return h.slots == hosts[0].slots; });
  if (even) words.push_back("--ntasks-per-node=" + std::to_string(hosts[0].slots));
}

Words start_words(const MpiTool& tool, const MpiSurroundings& around, const std::vector<Host>& hosts) {
  Words words = tool.command;
  switch (tool.kind) {
    case MpiKind::kOpenMpi:
      add_open_mpi(words, tool, around, hosts);
      break;
    case MpiKind::kHydra:
      add_hydra(words, tool, around, hosts);
      break;
    case MpiKind::kSrun:
      add_srun(words, hosts);
      break;
  }
  words.insert(words.end(), {"-n", std::to_string(count_slots(hosts))});
  return words;
}

}  // namespace

Result<MpiTool> recognize_mpi_tool(const std::vector<std::string>& command, const std::string& printed) {
  const auto begins = [&printed](std::string_view text) { return printed.rfind(text, 0) == 0; };
  for (const char* name : {"(Open MPI)", "(OpenRTE)"}) {
    const std::size_t place = printed.find(name);
    if (place != std::string::npos) {
      return MpiTool{command, MpiKind::kOpenMpi, "Open MPI " + number_after(printed, place)};
    }
  }
  if (begins("HYDRA")) return MpiTool{command, MpiKind::kHydra, "MPICH " + number_after(printed, 0)};
  if (begins("Intel(R) MPI")) return MpiTool{command, MpiKind::kHydra, "Intel MPI " + number_after(printed, 0)};
  if (begins("slurm")) return MpiTool{command, MpiKind::kSrun, "Slurm " + number_after(printed, 0)};
  return Error{ErrorCode::kInvalid, "launcher.mpi_command: \"" + joined(command, " ") +
                                        " --version\" names none of Open MPI, MPICH (Hydra) and Slurm; it prints: " +
                                        printed.substr(0, printed.find('\n'))};
}

Result<MpiTool> ask_mpi_tool(const std::vector<std::string>& command, std::chrono::milliseconds deadline) {
  const std::string name = joined(command, " ") + " --version";
  asio::io_context io{1};
  CommandEnd ended;
  CommandSpec spec;
  spec.argv = command;
  spec.argv.push_back("--version");
  spec.deadline = deadline;
  const auto started = Command::start(io, std::move(spec), nullptr, [&](CommandEnd end) { ended = std::move(end); });
  if (!started) {
    return Error{ErrorCode::kUnavailable, "launcher.kind = \"mpi\": " + started.error().message +
                                              "; launcher.mpi_command (--mpi-command) sets the command"};
  }
  io.run();
  if (ended.timed_out) return Error{ErrorCode::kTimeout, "\"" + name + "\" does not answer"};
  if (ended.status.signal == 0 && ended.status.exit_code == 0) return recognize_mpi_tool(command, ended.output);
  return Error{ErrorCode::kUnavailable,
               "\"" + name + "\" ended with " + describe(ended.status) + ": " + last_line(ended.error_text)};
}

Words mpi_start_command(const MpiTool& tool, const MpiSurroundings& around, const std::string& host,
                        const Words& program) {
  MpiSurroundings alone = around;
  alone.shares_cores = false;
  Words words = start_words(tool, alone, {{host, 1}});
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

// Without these options the end of one rank is the end of all.
Words mpi_pool_command(const MpiTool& tool, const MpiSurroundings& around, const std::vector<Host>& hosts,
                       const Words& program) {
  Words words = start_words(tool, around, hosts);
  if (tool.kind == MpiKind::kOpenMpi) words.push_back("--enable-recovery");
  if (tool.kind == MpiKind::kHydra) words.push_back("-disable-auto-cleanup");
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

std::string lost_rank_text(MpiKind kind) {
  switch (kind) {
    case MpiKind::kOpenMpi:
      return "the pool survives the loss of a worker or a host, but MPI accepts no new process for its ranks; the exit "
             "of this command ends the pool, which is then started again";
    case MpiKind::kHydra:
      return "the pool survives the loss of a worker, a host or this command, but MPI accepts no new process for the "
             "lost ranks; at the end MPICH's launcher reports such a pool as failed";
    case MpiKind::kSrun:
      return "a worker that exits cannot be replaced at its rank; whether the others survive depends on their MPI "
             "library";
  }
  return {};
}

}  // namespace elastictrain::launcher
