#include "cli/commands/plan/check_report.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "launcher/nccl_settings.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/protocol/codec.h"
#include "train/comm/nccl/nccl_library.h"

namespace elastictrain::cli {
namespace {

using protocol::AcceleratorFacts;
using Hosts = std::vector<const HostReport*>;

std::string host_list(const Hosts& hosts) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), kShown); ++i) text += (i > 0 ? ", " : "") + hosts[i]->host;
  return hosts.size() > kShown ? text + " and " + std::to_string(hosts.size() - kShown) + " more" : text;
}

Hosts reached(const std::vector<HostReport>& reports) {
  Hosts hosts;
  for (const HostReport& report : reports) {
    if (report.reached) hosts.push_back(&report);
  }
  return hosts;
}

// Everything that is shown for a group except the bus address of each GPU.
std::string findings_of(const HostReport& report) {
  AcceleratorFacts facts = report.accelerators;
  for (auto& gpu : facts.gpus) gpu.bus_id.clear();
  facts.shared_memory_free_bytes = 0;
  return protocol::encode_frame(protocol::AgentUp(facts)) + report.kernel_driver;
}

std::vector<Hosts> same_findings(const std::vector<HostReport>& reports) {
  std::vector<Hosts> groups;
  std::map<std::string, std::size_t> places;
  for (const HostReport* report : reached(reports)) {
    const auto [place, is_new] = places.try_emplace(findings_of(*report), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(report);
  }
  return groups;
}

void add_driver(Table& table, const HostReport& report) {
  const AcceleratorFacts& facts = report.accelerators;
  const std::string kernel = report.kernel_driver.empty() ? "" : ", kernel driver " + report.kernel_driver;
  if (!facts.driver.empty()) table.add_row({"driver", facts.driver + kernel});
  if (!facts.driver_problem.empty()) table.add_row({"driver", facts.driver_problem + kernel});
}

void add_gpus(Table& table, const AcceleratorFacts& facts, bool one_host) {
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const protocol::GpuFacts& gpu = facts.gpus[i];
    table.add_row({"GPU " + std::to_string(i), gpu.name + ", " + format_bytes(gpu.memory_bytes) + ", architecture " +
                                                   std::to_string(gpu.major) + "." + std::to_string(gpu.minor) +
                                                   (one_host ? ", at " + gpu.bus_id : "")});
  }
  if (!facts.peer_access.empty()) table.add_row({"peer access", facts.peer_access});
}

std::string nccl_text(const AcceleratorFacts& facts) {
  return facts.nccl_version == 0 ? "absent" : comm::nccl_version_text(static_cast<int>(facts.nccl_version));
}

void add_libraries(Table& table, const AcceleratorFacts& facts) {
  table.add_row({"NVRTC", facts.nvrtc_problem.empty() ? "found" : facts.nvrtc_problem});
  table.add_row({"cuBLAS", facts.cublas.empty() ? facts.cublas_problem : facts.cublas});
  table.add_row({"NCCL", facts.nccl.empty() ? facts.nccl_problem : nccl_text(facts) + ", " + facts.nccl});
  if (!facts.nccl.empty()) {
    for (const auto& issue : comm::known_nccl_issues(static_cast<int>(facts.nccl_version))) {
      table.add_row({"known", issue});
    }
  }
  table.add_row({"MPI", facts.mpi.empty() ? facts.mpi_problem : facts.mpi});
}

std::string render_group(const Hosts& hosts) {
  const HostReport& report = *hosts.front();
  const std::string title = "GPUs of " + host_list(hosts) + ", and the libraries that programs there can load\n";
  if (!report.accelerators.problem.empty()) return title + "unknown: " + report.accelerators.problem + "\n";
  Table table({{"what"}, {"found"}});
  add_driver(table, report);
  add_gpus(table, report.accelerators, hosts.size() == 1);
  add_libraries(table, report.accelerators);
  return title + table.render();
}

// Two communicators live beside each other while a generation follows another (train/GPU.md).
std::uint64_t shared_memory_needed_bytes(const HostReport& report) {
  constexpr std::uint64_t kBytesPerRank = 33'000'000;
  return 2 * kBytesPerRank * std::min<std::uint64_t>(report.slots, report.accelerators.gpus.size());
}

bool lacks_shared_memory(const HostReport& report) {
  const AcceleratorFacts& facts = report.accelerators;
  if (facts.nccl.empty() || report.slots < 2 || facts.gpus.size() < 2) return false;
  return facts.shared_memory_free_bytes > 0 && facts.shared_memory_free_bytes < shared_memory_needed_bytes(report);
}

// "NCCL: 2.28.9 on a, b; 2.27.3 on c", or nothing if all are the same.
std::string difference(const Hosts& hosts, const std::string& what, const std::string& consequence,
                       const std::function<std::string(const HostReport&)>& value_of) {
  std::map<std::string, Hosts> by_value;
  for (const HostReport* report : hosts) by_value[value_of(*report)].push_back(report);
  if (by_value.size() < 2) return "";
  std::string text;
  for (const auto& [value, with_it] : by_value)
    text += (text.empty() ? "" : "; ") + value + " on " + host_list(with_it);
  return "warning: " + what + " differs: " + text + ". " + consequence + "\n";
}

}  // namespace

std::string gpu_text(const HostReport& report) {
  std::vector<std::string> models = report.gpus;
  if (models.empty()) {
    for (const auto& gpu : report.accelerators.gpus) models.push_back(gpu.name);
  }
  std::map<std::string, int> counts;
  for (const auto& model : models) ++counts[model];
  std::string text;
  for (const auto& [model, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + model;
  return text.empty() ? "none" : text;
}

std::string render_gpus(const std::vector<HostReport>& reports) {
  std::string text;
  for (const Hosts& hosts : same_findings(reports)) text += (text.empty() ? "" : "\n") + render_group(hosts);
  return text;
}

std::string render_networks(const std::vector<HostReport>& reports) {
  Table table({{"host"}, {"interface"}, {"addresses of the data plane"}, {"NCCL_SOCKET_IFNAME"}});
  for (const HostReport* report : reached(reports)) {
    std::string addresses;
    for (const auto& address : report->addresses) addresses += (addresses.empty() ? "" : ", ") + address;
    table.add_row({report->host, report->interface.empty() ? "-" : report->interface,
                   report->interface_problem.empty() ? addresses : report->interface_problem,
                   report->nccl_interface.empty() ? "not set: NCCL chooses" : report->nccl_interface});
  }
  return table.render();
}

std::string render_differences(const std::vector<HostReport>& reports) {
  Hosts known;
  Hosts with_gpus;
  Hosts without;
  for (const HostReport* report : reached(reports)) {
    if (!report->accelerators.problem.empty()) continue;
    known.push_back(report);
    (report->accelerators.gpus.empty() ? without : with_gpus).push_back(report);
  }
  std::string text;
  if (!with_gpus.empty() && !without.empty()) {
    text += "warning: no GPU on " + host_list(without) + ", but on " + host_list(with_gpus) +
            ". Workers with a GPU and workers without one cannot reduce together\n";
  }
  text += difference(with_gpus, "NCCL", "Different versions cannot form one communicator",
                     [](const HostReport& report) { return nccl_text(report.accelerators); });
  text += difference(with_gpus, "the driver", "Programs built for the newer one may not start with the older one",
                     [](const HostReport& report) {
                       const std::string& driver = report.accelerators.driver;
                       const std::string cuda = driver.substr(0, driver.find(','));
                       return report.kernel_driver.empty() ? cuda : cuda + " (" + report.kernel_driver + ")";
                     });
  text += difference(with_gpus, "the GPU", "The slowest one limits the step time unless shares are uneven", gpu_text);
  text += difference(with_gpus, "cuBLAS", "The built-in trainer needs it on all hosts",
                     [](const HostReport& report) { return report.accelerators.cublas.empty() ? "absent" : "found"; });
  return text;
}

std::string render_shortages(const std::vector<HostReport>& reports) {
  std::string text;
  for (const HostReport* report : reached(reports)) {
    if (!lacks_shared_memory(*report)) continue;
    text += "warning: /dev/shm of " + report->host + " has " +
            format_bytes(report->accelerators.shared_memory_free_bytes) + " free, and NCCL may need " +
            format_bytes(shared_memory_needed_bytes(*report)) +
            " while a change is prepared. Enlarge it (docker run --shm-size)\n";
  }
  return text;
}

std::string render_worker_settings(const std::vector<HostReport>& reports, const std::string& interface) {
  const bool any_gpu = std::any_of(reports.begin(), reports.end(),
                                   [](const HostReport& report) { return !report.accelerators.gpus.empty(); });
  if (!any_gpu) return "";
  Table table({{"workers get"}, {"reason"}});
  for (const auto& setting : launcher::nccl_settings(interface, "127.0.0.1:<a port of its own>")) {
    const char* present = std::getenv(setting.name.c_str());
    const std::string value = present != nullptr ? std::string(present) + " (yours)" : setting.value;
    table.add_row({setting.name + "=" + value, setting.reason});
  }
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking != nullptr && std::string(blocking) == "1") {
    table.add_row({"warning: CUDA_LAUNCH_BLOCKING=1",
                   "blocks a communicator built during training forever (nccl#750); unset it"});
  }
  return "\n" + table.render();
}

namespace {

struct Usable {
  std::uint64_t slots = 0;
  std::uint64_t offered = 0;  // also those of hosts on which no worker can be started
  std::size_t hosts = 0;
  int program_status = 0;  // of a host that cannot be used
};

Usable count_usable(const std::vector<HostReport>& hosts) {
  Usable usable;
  for (const HostReport& host : hosts) {
    const bool is_good = host.obstacle().empty();
    usable.slots += is_good ? host.slots : 0;
    usable.offered += host.problem.empty() ? host.slots : 0;
    usable.hosts += is_good ? 1 : 0;
    if (!is_good && host.program_status != 0) usable.program_status = host.program_status;
  }
  return usable;
}

// A program that ends at the start ends the run. Hosts are used in their order.
std::vector<std::string> missing_files(const CheckFindings& findings, bool at_start) {
  std::vector<std::string> found;
  std::uint64_t slots_before = 0;
  for (const HostReport& host : findings.hosts) {
    const bool is_used = slots_before < findings.start_workers;
    if (!host.obstacle().empty()) continue;
    slots_before += host.slots;
    if (!host.missing_file.empty() && is_used == at_start)
      found.push_back("on host " + host.host + " " + host.missing_file);
  }
  return found;
}

// Workers of one run are meant to be equal.
std::string different_interpreters(const std::vector<HostReport>& hosts) {
  std::map<std::string, std::vector<std::string>> users;
  for (const HostReport& host : hosts) {
    if (host.obstacle().empty() && !host.interpreter.empty()) users[host.interpreter].push_back(host.host);
  }
  if (users.size() < 2) return "";
  std::string text = "the interpreter is not the same on all hosts:";
  for (const auto& [interpreter, names] : users) text += " " + interpreter + " on " + join(names, ", ") + ";";
  text.pop_back();
  return text;
}

}  // namespace

CheckVerdict verdict_on(const CheckFindings& findings) {
  CheckVerdict verdict;
  const Usable usable = count_usable(findings.hosts);
  const bool enough = findings.hosts_come_later || usable.slots >= findings.min_workers;
  for (const Obstacle& obstacle : findings.here) verdict.problems.push_back(obstacle.text);
  for (const HostReport& host : findings.hosts) {
    if (host.obstacle().empty()) continue;
    auto& told = enough ? verdict.warnings : verdict.problems;
    told.push_back("host " + host.host + " cannot be used: " + host.obstacle());
  }
  if (!enough && findings.hosts.empty()) verdict.problems.push_back("there is no host");
  const bool is_offered = usable.offered >= findings.min_workers;
  if (!enough && !is_offered && usable.offered > 0) {
    verdict.problems.push_back("the hosts offer " + core::counted(usable.offered, "slot") + ", but at least " +
                               core::counted(findings.min_workers, "worker") +
                               " must start. Add hosts or slots, or lower workers.min.");
  }
  for (std::string& file : missing_files(findings, false)) verdict.warnings.push_back(std::move(file));
  const std::vector<std::string> files = missing_files(findings, true);
  verdict.problems.insert(verdict.problems.end(), files.begin(), files.end());
  if (const std::string differs = different_interpreters(findings.hosts); !differs.empty())
    verdict.warnings.push_back(differs);
  if (!enough) verdict.status = is_offered && usable.program_status != 0 ? usable.program_status : kExitUnavailable;
  if (enough && !files.empty()) verdict.status = kExitNoInput;
  if (!findings.here.empty()) verdict.status = findings.here.front().status;
  const bool has_none_yet = findings.hosts.empty() && findings.hosts_come_later;
  const bool is_good = verdict.problems.empty();
  if (is_good && has_none_yet) verdict.text = "good; its slots come later";
  if (is_good && has_none_yet) return verdict;
  verdict.text = is_good
                     ? "good, " + core::counted(usable.hosts, "host") + " with " + core::counted(usable.slots, "slot")
                     : "the run cannot start like this: " + core::counted(verdict.problems.size(), "problem");
  return verdict;
}

}  // namespace elastictrain::cli
