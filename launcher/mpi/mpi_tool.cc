#include "launcher/mpi/mpi_tool.h"

#include <algorithm>
#include <asio/io_context.hpp>
#include <numeric>

#include "launcher/process/command.h"

namespace elastictrain::launcher {
namespace {

using Arguments = std::vector<std::string>;

std::string joined(const Arguments& arguments, const char* separator) {
  std::string text;
  for (const std::string& word : arguments) text += (text.empty() ? "" : separator) + word;
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
  Arguments arguments;
  for (const Host& host : hosts) arguments.push_back(host.name + (with_slots ? ":" + std::to_string(host.slots) : ""));
  return joined(arguments, ",");
}

// Some options are an error if they are given twice, by the user and here.
bool mentions(const MpiTool& tool, const char* word) {
  return std::find(tool.command.begin(), tool.command.end(), word) != tool.command.end();
}

void add_parameter(Arguments& arguments, const MpiTool& tool, const char* name, const std::string& value) {
  if (!value.empty() && !mentions(tool, name)) arguments.insert(arguments.end(), {"--mca", name, value});
}

// Open MPI's mpirun may end all processes when an ssh exits; with -f, ssh runs in the background, unwatched.
std::string remote_shell_agent(Arguments ssh) {
  if (!ssh.empty()) ssh.insert(ssh.begin() + 1, "-f");
  return joined(ssh, " ");
}

// With a binding to one core, a rank's agent and all its worker's threads would share it.
void add_open_mpi(Arguments& arguments, const MpiTool& tool, const MpiSurroundings& around,
                  const std::vector<Host>& hosts) {
  if (around.is_root) arguments.push_back("--allow-run-as-root");
  if (around.shares_cores) add_parameter(arguments, tool, "mpi_yield_when_idle", "1");
  add_parameter(arguments, tool, "plm_rsh_agent", remote_shell_agent(around.ssh));
  add_parameter(arguments, tool, "oob_tcp_if_include", around.interface);
  add_parameter(arguments, tool, "btl_tcp_if_include", around.interface);
  arguments.insert(arguments.end(), {"--bind-to", "none", "--map-by", "slot", "--host", host_list(hosts, true)});
}

// Hydra's proxies connect back by name, which other hosts may be unable to resolve.
void add_hydra(Arguments& arguments, const MpiTool& tool, const MpiSurroundings& around,
               const std::vector<Host>& hosts) {
  if (!around.ssh.empty()) {
    const Arguments options(around.ssh.begin() + 1, around.ssh.end());
    arguments.insert(arguments.begin(), {"env", "HYDRA_LAUNCHER_EXTRA_ARGS=" + joined(options, " ")});
    if (around.ssh.front() != "ssh") arguments.insert(arguments.end(), {"-launcher-exec", around.ssh.front()});
  }
  if (!around.own_address.empty() && !mentions(tool, "-localhost")) {
    arguments.insert(arguments.end(), {"-localhost", around.own_address});
  }
  arguments.insert(arguments.end(), {"-hosts", host_list(hosts, true)});
}

void add_srun(Arguments& arguments, const std::vector<Host>& hosts) {
  arguments.insert(arguments.end(), {"--overlap", "--mem=0", "--cpu-bind=none", "--wait=0", "--kill-on-bad-exit=0",
                                     "--quiet", "--job-name=elastictrain", "--nodes=" + std::to_string(hosts.size()),
                                     "--nodelist=" + host_list(hosts, false)});
  const bool even = std::all_of(hosts.begin(), hosts.end(), [&](const Host& h) { return h.slots == hosts[0].slots; });
  if (even) arguments.push_back("--ntasks-per-node=" + std::to_string(hosts[0].slots));
}

Arguments start_arguments(const MpiTool& tool, const MpiSurroundings& around, const std::vector<Host>& hosts) {
  Arguments arguments = tool.command;
  switch (tool.kind) {
    case MpiKind::kOpenMpi:
      add_open_mpi(arguments, tool, around, hosts);
      break;
    case MpiKind::kHydra:
      add_hydra(arguments, tool, around, hosts);
      break;
    case MpiKind::kSrun:
      add_srun(arguments, hosts);
      break;
  }
  arguments.insert(arguments.end(), {"-n", std::to_string(count_slots(hosts))});
  return arguments;
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

Arguments mpi_start_command(const MpiTool& tool, const MpiSurroundings& around, const std::string& host,
                            const Arguments& program) {
  MpiSurroundings alone = around;
  alone.shares_cores = false;
  Arguments arguments = start_arguments(tool, alone, {{host, 1}});
  arguments.insert(arguments.end(), program.begin(), program.end());
  return arguments;
}

// Without these options the end of one rank is the end of all.
Arguments mpi_pool_command(const MpiTool& tool, const MpiSurroundings& around, const std::vector<Host>& hosts,
                           const Arguments& program) {
  Arguments arguments = start_arguments(tool, around, hosts);
  if (tool.kind == MpiKind::kOpenMpi) arguments.push_back("--enable-recovery");
  if (tool.kind == MpiKind::kHydra) arguments.push_back("-disable-auto-cleanup");
  arguments.insert(arguments.end(), program.begin(), program.end());
  return arguments;
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
