// `elastictrain events`: prints the journal as text or as it is stored. --follow continues until the run ends.
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/output/event_text.h"
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

constexpr int kLookAgainMs = 250;

// Passes on the whole lines appended since the last call. An incomplete last line waits for its end.
class JournalReader {
 public:
  explicit JournalReader(const std::string& path) : stream_(path, std::ios::binary) {}
  bool is_open() const { return stream_.is_open(); }

  template <class Use>
  void read_lines(Use use) {
    std::array<char, 65536> block;
    stream_.clear();
    while (stream_.read(block.data(), block.size()) || stream_.gcount() > 0) {
      rest_.append(block.data(), static_cast<std::size_t>(stream_.gcount()));
    }
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      use(std::string_view(rest_).substr(begin, end - begin));
    }
    rest_.erase(0, begin);
  }

 private:
  std::ifstream stream_;
  std::string rest_;
};

class FileWatch {
 public:
  explicit FileWatch(const std::string& path) : descriptor_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (descriptor_ >= 0) inotify_add_watch(descriptor_, path.c_str(), IN_MODIFY);
  }
  ~FileWatch() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Waits until the file grows, but at most kLookAgainMs: some file systems send no notifications.
  void wait() {
    pollfd ready{descriptor_, POLLIN, 0};
    if (poll(&ready, 1, kLookAgainMs) <= 0) return;
    std::array<char, 4096> drained;
    while (::read(descriptor_, drained.data(), drained.size()) > 0) continue;
  }

 private:
  int descriptor_;
};

int print_events(const EventsFlags& flags) {
  if (flags.reference) {
    std::cout << render_journal_reference();
    return std::cout.flush() ? kExitSuccess : kExitFailure;
  }
  const auto directory = find_run(flags.name);
  if (!directory.ok()) return complain("events", directory.error());
  const std::string path = *directory + "/" + control::kJournalName;
  JournalReader reader(path);
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
