#include "cli/commands/ended_run.h"

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

}  // namespace elastictrain::cli
