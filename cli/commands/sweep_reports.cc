#include "cli/commands/sweep_reports.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/config/text.h"
#include "cli/output/event_text.h"
#include "cli/output/run_log.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kLongestLine = 4096;  // of the output; std::regex recurses over what it looks at

double number_in(std::string_view text) {
  return parse_number(trim(text)).value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

SweepReports::SweepReports(const SweepFile& file) : metric_(file.metric) {
  if (!file.pattern.empty()) pattern_ = std::regex(file.pattern);
}

void SweepReports::restore(KnownReports known) {
  values_ = std::move(known.values);
  restored_ = std::move(known.place);
}

bool SweepReports::read(const std::string& run_directory) {
  if (!follower_ && pattern_) {
    follower_.emplace(kept_log_path(run_directory), older_kept_log_path(run_directory), restored_);
  } else if (!follower_) {
    follower_.emplace(run_directory + "/" + control::kJournalName, "", restored_);
  }
  bool is_anew = false;
  follower_->read_lines([this](std::string_view line) { pattern_ ? take_output(line) : take_event(line); },
                        [&] {
                          values_.clear();
                          is_anew = true;
                        });
  return is_anew;
}

void SweepReports::take_event(std::string_view line) {
  if (event_name(line) != "note") return;
  const nlohmann::json about = parse_json(line);
  if (!about.is_object()) return;
  const auto key = about.find("key"), value = about.find("value");
  if (key == about.end() || value == about.end() || *key != metric_ || !value->is_string()) return;
  values_.push_back(number_in(value->get<std::string>()));
}

void SweepReports::take_output(std::string_view line) {
  const auto kept = read_kept_line(line);
  if (!kept || kept->is_of_run() || kept->rank != "0") return;
  std::match_results<std::string_view::const_iterator> match;
  const std::string_view text = kept->text.substr(0, kLongestLine);
  if (!std::regex_search(text.begin(), text.end(), match, *pattern_) || !match[1].matched) return;
  values_.push_back(number_in(match[1].str()));
}

}  // namespace elastictrain::cli
