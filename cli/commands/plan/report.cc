// `elastictrain report`: what a run did, as one HTML page made from its journal.
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run_client.h"
#include "cli/report/write.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kReportExamples = R"(
Examples:
  elastictrain report                       the newest run, into NAME.html here
  elastictrain report job -o job.html       a run by name, live or ended
  elastictrain report job -o - | gzip       on standard output

With report.on_end = "FILE" a run writes its report itself when it ends.
)";

struct ReportFlags {
  std::string name;
  std::string output;
};

int print_report(const ReportFlags& flags) {
  const auto directory = find_run(flags.name);
  if (!directory.ok()) return complain("report", directory.error());
  const auto recorded = find_recorded(*directory);
  const auto page = run_report::page_of(*directory, recorded ? recorded->typed : std::vector<std::string>());
  if (!page.ok()) return complain("report", page.error());
  if (flags.output == "-") {
    std::cout << *page;
    return std::cout.flush() ? kExitSuccess : kExitFailure;
  }
  const std::string name = std::filesystem::path(*directory).filename();
  const std::string path = flags.output.empty() ? name + ".html" : flags.output;
  if (const Status written = run_report::write_page(*page, path); !written.ok()) {
    complain("report", written.error());
    return kExitCannotCreate;
  }
  std::cout << std::filesystem::absolute(path).string() << "\n";
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

}  // namespace

Command make_report(Invocation& invocation) {
  const auto flags = std::make_shared<ReportFlags>();
  return {
      "report",
      "what a run did, as one HTML page: size, throughput, changes, losses, slow workers, cost",
      kGroupClient,
      {word("run", "[NAME]", "name of the run, when several are live; it may have ended", flags->name),
       value("-o,--output", "FILE", "where to write it; -: standard output; default: NAME.html here", flags->output)},
      always(invocation, [flags] { return print_report(*flags); }),
      kReportExamples};
}

}  // namespace elastictrain::cli
