// `elastictrain events`: prints the journal as text or as it is stored. --follow continues until the run ends.
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/output/event_text.h"
#include "cli/output/file_follow.h"
#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal_reference.h"

namespace elastictrain::cli {
namespace {

struct EventsFlags {
  std::string name;
  bool follow = false;
  bool json = false;
  bool reference = false;
};

int print_events(const EventsFlags& flags) {
  if (flags.reference) {
    std::cout << render_journal_reference();
    return std::cout.flush() ? kExitSuccess : kExitFailure;
  }
  const auto directory = find_run(flags.name);
  if (!directory.ok()) return complain("events", directory.error());
  const std::string path = *directory + "/" + control::kJournalName;
  FileFollower reader(path);
  if (!reader.is_open()) return complain("events", {ErrorCode::kUnavailable, path + " cannot be read"});
  FileWatch watch(path);
  const auto print = [&flags](std::string_view line) {
    const std::string text = flags.json ? std::string(line) : render_event(line);
    if (!text.empty()) std::cout << text << "\n";
  };
  reader.read_lines(print);
  while (flags.follow && std::cout.flush() && control::is_live(*directory)) {
    watch.wait();
    reader.read_lines(print);
  }
  // Lines that the run wrote between the last read and its end.
  reader.read_lines(print);
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

}  // namespace

Command make_events(Invocation& invocation) {
  const auto flags = std::make_shared<EventsFlags>();
  return {"events",
          "what happened, from the journal",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live; it may have ended", flags->name),
           flag("-f,--follow", "wait for new lines until the run ends", flags->follow),
           flag("--json", "the journal's lines as stored", flags->json),
           flag("--reference", "print the page of all events and their fields", flags->reference)},
          always(invocation, [flags] { return print_events(*flags); })};
}

}  // namespace elastictrain::cli
