#include "cli/commands/check_verdict.h"

#include <map>
#include <utility>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "supervisor/core/pure/text.h"

namespace elastictrain::cli {
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
