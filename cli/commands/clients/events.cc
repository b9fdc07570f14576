// `elastictrain events`: prints the journal as text or as it is stored. --follow continues until the run ends.
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <utility>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/event_text.h"
#include "cli/output/file_follow.h"
#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal_reference.h"

namespace elastictrain::cli {
namespace {

struct EventsFlags {
  std::string name;
  std::string cluster;
  std::vector<std::string> types;
  std::string since;  // as parse_since gives it
  JournalLevel least = JournalLevel::kInfo;
  bool has_level = false;
  bool all = false;
  bool follow = false;
  bool json = false;
  bool reference = false;
};

// Where the journal is, and whether the run lives that writes it. A cluster's is read as far as it goes.
struct EventSource {
  std::string path;
  std::function<bool()> is_live;
};

Result<EventSource> source_of(const EventsFlags& flags) {
  if (!flags.cluster.empty()) {
    const auto directory = directory_of_cluster(flags.cluster);
    if (!directory.ok()) return directory.error();
    return EventSource{*directory + "/" + control::kJournalName, [] { return true; }};
  }
  const auto directory = find_run(flags.name);
  if (!directory.ok()) return directory.error();
  return EventSource{*directory + "/" + control::kJournalName,
                     [place = *directory] { return control::is_live(place); }};
}

std::string shown_event(const EventsFlags& flags, std::string_view line) {
  const bool is_chosen = flags.types.empty()
                             ? flags.all || (flags.json && !flags.has_level) || event_level(line) >= flags.least
                             : std::find(flags.types.begin(), flags.types.end(), event_name(line)) != flags.types.end();
  if (!is_chosen || (!flags.since.empty() && !is_since(event_time(line), flags.since))) return "";
  return flags.json ? std::string(line) : render_event(line);
}

int print_events(const EventsFlags& flags) {
  if (flags.reference) {
    std::cout << render_journal_reference();
    return std::cout.flush() ? kExitSuccess : kExitFailure;
  }
  const auto source = source_of(flags);
  if (!source.ok()) return complain("events", source.error());
  FileFollower reader(source->path);
  if (!reader.is_open()) return complain("events", {ErrorCode::kUnavailable, source->path + " cannot be read"});
  FileWatch watch(source->path);
  const auto print = [&flags](std::string_view line) {
    if (const std::string text = shown_event(flags, line); !text.empty()) std::cout << text << "\n";
  };
  reader.read_lines(print);
  while (flags.follow && std::cout.flush() && source->is_live()) {
    watch.wait();
    reader.read_lines(print);
  }
  // Lines that the run wrote between the last read and its end.
  reader.read_lines(print);
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

Status check_types(const EventsFlags& flags) {
  const bool of_run = flags.cluster.empty();
  const std::vector<std::string> known = of_run ? event_names() : cluster::event_names();
  for (const std::string& type : flags.types) {
    if (std::find(known.begin(), known.end(), type) != known.end()) continue;
    const auto near = closest(type, known);
    return wrong_usage(
        "--type: no event is named " + type + (near ? "; did you mean " + *near + "?" : "") +
        (of_run ? "; elastictrain events --reference describes all" : "; there are " + cli::join(known, ", ")));
  }
  return {};
}

}  // namespace

Command make_events(Invocation& invocation) {
  const auto flags = std::make_shared<EventsFlags>();
  const auto since = [flags](const std::string& text) -> Status {
    auto parsed = parse_since(text);
    if (!parsed.ok()) return parsed.error();
    flags->since = std::move(*parsed);
    return {};
  };
  const auto level = [flags](const std::string& text) -> Status {
    const auto named = journal_level_named(text);
    if (!named) return Error{ErrorCode::kInvalid, "must be one of detail, info, warning, error"};
    flags->least = *named;
    flags->has_level = true;
    return {};
  };
  const auto choose = [&invocation, flags]() -> Status {
    invocation.action = [flags] { return print_events(*flags); };
    return check_types(*flags);
  };
  return {
      "events",
      "what happened, from the journal",
      kGroupClient,
      {word("run", "[NAME]", "name of the run, when several are live; it may have ended", flags->name),
       flag("-f,--follow", "wait for new lines until the run ends", flags->follow),
       flag("--json", "the journal's lines as stored", flags->json),
       flag("--all", "also the steps of each change, each worker's start, and what the program reports", flags->all),
       value("--level", "LEVEL", "only events of this level and above: detail, info, warning, error; default info",
             level),
       list("--type", "EVENT", "only events of these names", flags->types),
       value("--since", "TIME", "only events of the last 10m, or since 2026-01-31T14:03", since),
       cluster_journal_flag(flags->cluster),
       flag("--reference", "print the page of all events and their fields", flags->reference)},
      choose};
}

}  // namespace elastictrain::cli
