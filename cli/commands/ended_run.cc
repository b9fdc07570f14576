#include "cli/commands/ended_run.h"

#include <chrono>
#include <ctime>

#include "cli/output/figures.h"
#include "cli/output/since.h"
#include "cli/output/summary.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal_history.h"

namespace elastictrain::cli {

Result<std::string> summary_of_ended(const std::string& directory, const RunRecord& record) {
  Summary summary;
  RunFigures figures;
  figures.view.run_name = record.run_name;
  summary.add_figures(figures);
  const auto history = read_journal_history(directory + "/" + control::kJournalName,
                                            [&](const core::Record& entry) { summary.add_record(entry); });
  if (!history.ok()) return history.error();
  figures.uptime_s = history->up_s;
  summary.add_figures(figures);
  std::string text = summary.render(record.end ? record.end->exit_status : 0);
  if (record.end && record.end->can_continue)
    text += "  continue with: elastictrain run --resume " + record.run_name + "\n";
  return text;
}

std::string how_it_ended(const RunRecord& record) {
  const RunRecord::End& end = *record.end;
  std::string text =
      "run " + record.run_name + " has ended: " + end.reason + " (status " + std::to_string(end.exit_status) + ")";
  if (end.ended_unix_s == 0) return text;  // written by an older version
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (now >= end.ended_unix_s) text += ", " + format_duration(now - end.ended_unix_s) + " ago";
  return text + " (" + local_time_text(static_cast<std::time_t>(end.ended_unix_s)) + ")";
}

}  // namespace elastictrain::cli
