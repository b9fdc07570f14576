#include "cli/report/write.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/output/whole_file.h"
#include "cli/report/collector.h"
#include "cli/report/page.h"
#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal_history.h"

namespace elastictrain::cli::run_report {
namespace {

// Views are most of a long journal, and a curve needs a few for each of its points: of the views of a run that lasts t,
// those at least t / 400 apart are read. All other records are.
class ViewChoice {
 public:
  bool operator()(std::string_view line) {
    const std::string_view head = line.substr(0, kHeadBytes);
    if (head.find("\"event\":\"observed\"") == std::string_view::npos) return true;
    const std::size_t place = head.find("\"up\":");
    if (place == std::string_view::npos) return true;
    const std::string number(head.substr(place + 5, 32));
    const double up_s = std::strtod(number.c_str(), nullptr);
    if (!(up_s >= last_s_)) last_s_ = 0;  // damaged, or of an earlier clock
    if (up_s < last_s_ * (1 + kSpacing)) return false;
    last_s_ = up_s;
    return true;
  }

 private:
  static constexpr std::size_t kHeadBytes = 160;  // of a record, which hold its number, its times and its event
  static constexpr double kSpacing = 1.0 / 400;
  double last_s_ = 0;
};

Error cannot_write(const std::string& path, const std::string& why) {
  return {ErrorCode::kIo, "the report cannot be written to " + path + ": " + why};
}

}  // namespace

Result<std::string> page_of(const std::string& directory, const std::vector<std::string>& typed) {
  Collector collector;
  double up_s = 0;
  const auto history = read_journal_lines(
      directory + "/" + control::kJournalName,
      [&](const JournalLine& line) {
        up_s = line.up_s.value_or(up_s);
        if (line.record) collector.take(*line.record, up_s, line.unix_s);
      },
      ViewChoice());
  if (!history.ok()) return history.error();
  Report report = collector.result();
  if (report.name.empty()) report.name = std::filesystem::path(directory).filename();
  report.typed = typed;
  report.is_live = !report.exit_status && control::is_live(directory);
  return render_page(report);
}

Status write_page(const std::string& page, const std::string& path) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) return cannot_write(path, failed.message());
  failed = write_whole_file(path, page);
  return failed ? Status(cannot_write(path, failed.message())) : Status();
}

}  // namespace elastictrain::cli::run_report
