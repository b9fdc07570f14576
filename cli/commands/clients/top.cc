// `elastictrain top`: a run on a full screen: throughput, workers, hosts, events, and keys that change it.
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/commands/clients/status.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/event_text.h"
#include "cli/output/file_follow.h"
#include "cli/top/model.h"
#include "cli/top/screen.h"
#include "cli/top/terminal.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {
namespace {

using TopClock = std::chrono::steady_clock;

constexpr const char* kTopKeys = R"(
Keys: q quit, s order of workers, + and - resize, r replace the chosen worker, d drain its host, h help.
What changes the run is asked for confirmation. Without a terminal it prints what status --watch prints.
)";
constexpr std::uint64_t kNewestBytes = 64 * 1024;  // of the journal, for the first events
constexpr Millis kTopAnswer{3'000};

struct TopFlags {
  std::string name;
  double interval_s = 0.5;
};

class TopLoop {
 public:
  TopLoop(std::string directory, const TopFlags& flags, std::unique_ptr<top::Terminal> terminal)
      : directory_(std::move(directory)),
        every_(std::chrono::duration_cast<TopClock::duration>(std::chrono::duration<double>(flags.interval_s))),
        terminal_(std::move(terminal)),
        events_(directory_ + "/" + control::kJournalName, kNewestBytes) {}

  void run() {
    auto next_look = TopClock::now();
    while (!model_.wants_to_quit()) {
      if (TopClock::now() >= next_look) {
        look();
        next_look = TopClock::now() + every_;
      }
      terminal_->show(top::draw(model_, terminal_->size()));
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_look - TopClock::now());
      press(terminal_->read_key(std::max(left, std::chrono::milliseconds(1))));
    }
  }

 private:
  void look() {
    events_.read_lines([this](std::string_view line) {
      if (event_level(line) < JournalLevel::kInfo) return;
      if (std::string text = render_event(line, EventTime::kClock); !text.empty()) model_.add_event(std::move(text));
    });
    const auto answer = ask_run(directory_, {{"command", "status"}}, kTopAnswer);
    if (!answer.ok()) return model_.lost(why_silent(answer.error()));
    model_.take(top::view_of(answer->value("status", nlohmann::json::object())));
  }

  std::string why_silent(const Error& error) const {
    const auto record = load_run_record(directory_);
    if (!record.ok() || !record->end) return error.message;
    return "the run has ended with status " + std::to_string(record->end->exit_status) + ": " + record->end->reason;
  }

  void press(top::Key key) {
    const auto request = model_.press(key);
    if (!request) return;
    const auto answer = ask_run(directory_, *request, kTopAnswer);
    model_.answered(answer.ok() ? answer->value("text", "done") : answer.error().message);
  }

  std::string directory_;
  TopClock::duration every_;
  std::unique_ptr<top::Terminal> terminal_;
  FileFollower events_;
  top::Model model_;
};

int show_top(const TopFlags& flags) {
  const auto directory = find_live_run(flags.name);
  if (!directory.ok()) return complain("top", directory.error());
  auto terminal = top::Terminal::open();
  if (!terminal.ok()) {
    std::cerr << "elastictrain top: " << terminal.error().message << "; this is what status --watch prints\n";
    return watch_status(flags.name, std::max(1.0, flags.interval_s));
  }
  TopLoop(*directory, flags, std::move(*terminal)).run();
  return kExitSuccess;
}

}  // namespace

Command make_top(Invocation& invocation) {
  const auto flags = std::make_shared<TopFlags>();
  const auto interval = [flags](const std::string& text) {
    flags->interval_s = parse_number(text).value_or(0);
    if (flags->interval_s >= 0.1 && flags->interval_s <= 60) return Status();
    return Status(wrong_usage("--interval: '" + text + "' is not a number of seconds from 0.1 to 60"));
  };
  return {"top",
          "a run on a full screen: throughput, workers, hosts, events; keys change it",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live", flags->name),
           value("--interval", "SECONDS", "seconds between two looks; default 0.5", interval)},
          always(invocation, [flags] { return show_top(*flags); }),
          kTopKeys};
}

}  // namespace elastictrain::cli
