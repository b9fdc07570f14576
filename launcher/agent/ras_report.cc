#include "launcher/agent/ras_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kMaxReportLines = 40;
constexpr std::size_t kMaxNamed = 8;  // ranks or processes of one sentence
constexpr std::size_t kMaxName = 64;

// Reads a line from its beginning; text that does not match is not consumed.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool take(std::string_view expected) {
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  bool skip_past(std::string_view mark) {
    const auto place = text_.find(mark);
    if (place == std::string_view::npos) return false;
    text_.remove_prefix(place + mark.size());
    return true;
  }
  std::optional<std::uint64_t> number() {
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (failed != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  // Letters, digits and the characters of addresses and versions; any other character ends it.
  std::string name() {
    constexpr std::string_view kOthers = ".:_-+,%";
    std::string taken;
    while (!text_.empty() && taken.size() < kMaxName) {
      const char c = text_.front();
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!is_letter && kOthers.find(c) == std::string_view::npos) break;
      taken += c;
      text_.remove_prefix(1);
    }
    return taken;
  }
  void skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size())); }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
};

std::string counted(std::uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

struct Place {
  std::string gpu;
  std::uint64_t process = 0;
  std::string node;

  std::string text() const {
    if (node.empty()) return "";
    return "process " + std::to_string(process) + " on " + node + ", GPU " + gpu;
  }
};

// "GPU 0 (NVML 1) managed by process 4711 on node 10.0.0.1"
Place read_place(Scanner line) {
  Place place;
  if (!line.skip_past(" -- GPU ")) return place;
  place.gpu = line.name();
  if (!line.skip_past("managed by process ")) return place;
  place.process = line.number().value_or(0);
  if (line.take(" on node ")) place.node = line.name();
  return place;
}

// "Process 4711 on node 10.0.0.1 managing GPU 0"
std::optional<Place> read_process(Scanner line) {
  Place place;
  if (!line.take("Process ")) return std::nullopt;
  place.process = line.number().value_or(0);
  if (line.take(" on node ")) place.node = line.name();
  if (line.skip_past(" managing GPU")) {
    line.take("s");
    line.skip_spaces();
    place.gpu = line.name();
  }
  return place;
}

std::string function_text(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kWords{{{"AllReduce", "all-reduce"},
                                                                                 {"AllGather", "all-gather"},
                                                                                 {"ReduceScatter", "reduce-scatter"},
                                                                                 {"Broadcast", "broadcast"},
                                                                                 {"Reduce", "reduce"}}};
  for (const auto& [known, text] : kWords) {
    if (name == known) return std::string(text);
  }
  return name;
}

std::string status_text(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kWords{{{"NOCOMM", "not in it any more"},
                                                                                 {"INIT", "building it"},
                                                                                 {"RUNNING", "running"},
                                                                                 {"FINALIZE", "closing it"},
                                                                                 {"ABORT", "aborting it"}}};
  for (const auto& [known, text] : kWords) {
    if (name == known) return std::string(text);
  }
  return "of status " + name;
}

std::string error_text(Scanner line) {
  std::string text = line.name();
  while (line.take(" ") && !line.take("-- ")) text.append(" ").append(line.name());
  return text.substr(0, kMaxName);
}

// Ranks of one communicator that report the same.
struct Group {
  std::uint64_t count = 1;
  std::uint64_t operation = 0;
  std::string finding;  // of a status or an error
  std::vector<std::pair<std::uint64_t, Place>> ranks;

  std::string who() const {
    if (ranks.empty()) return counted(count, "rank", "ranks");
    if (ranks.size() == 1) {
      const std::string place = ranks[0].second.text();
      return "rank " + std::to_string(ranks[0].first) + (place.empty() ? "" : " (" + place + ")");
    }
    std::string text = "ranks ";
    for (std::size_t i = 0; i < std::min(ranks.size(), kMaxNamed); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(ranks[i].first);
    }
    return ranks.size() > kMaxNamed ? text + " and " + std::to_string(ranks.size() - kMaxNamed) + " more" : text;
  }
};

class Explanation {
 public:
  void read(std::string_view line);
  std::vector<std::string> finish();

 private:
  enum class Topic { kNone, kOperations, kStatus, kErrors, kMissingRanks, kSilent, kDead };

  bool read_heading(Scanner line);
  bool read_topic(Scanner line);
  void read_table_row(Scanner line);
  void read_group(Scanner line);
  bool read_rank(Scanner line);
  std::optional<Group> read_finding(Scanner& line, std::uint64_t count) const;
  void begin(Topic topic, std::uint64_t count = 0);
  void close_topic();
  void say_operations();
  std::string processes() const;
  std::string sentence(const char* between) const;
  void say(std::string line) {
    if (lines_.size() < kMaxReportLines) lines_.push_back(std::move(line));
  }

  std::vector<std::string> lines_;
  bool in_table_ = false;
  std::uint64_t communicators_ = 0;
  bool all_well_ = true;
  bool reported_all_ = false;  // the report reached the warnings
  Topic topic_ = Topic::kNone;
  std::uint64_t topic_count_ = 0;
  std::string communicator_;  // "#0-0 (00ab…)"
  std::string function_;
  std::vector<Group> groups_;
  std::vector<Place> processes_;
};

void Explanation::read(std::string_view line) {
  const bool indented = line.starts_with("  ") && line.size() > 2 && line[2] != ' ';
  if (!indented && read_heading(Scanner(line))) return;
  if (in_table_) return read_table_row(Scanner(line));
  if (line.empty()) return close_topic();
  if (!indented) return;
  const Scanner inner(line.substr(2));
  if (read_topic(inner)) return;
  if (const auto place = read_process(inner)) {
    if (processes_.size() <= kMaxNamed) processes_.push_back(*place);
  } else if (topic_ != Topic::kNone) {
    read_group(inner);
  }
}

bool Explanation::read_heading(Scanner line) {
  if (line.take("NCCL version ")) {
    say("NCCL " + line.name() + " says:");
    return true;
  }
  if (line.take("Group ")) {
    in_table_ = true;
    return true;
  }
  if (line.take("Errors")) {
    in_table_ = false;
    return true;
  }
  if (line.take("Warnings")) {
    close_topic();
    reported_all_ = true;
    return true;
  }
  if (!line.take("#")) return false;
  close_topic();
  communicator_ = "communicator " + line.name();
  if (line.take(" (")) communicator_ += " (" + line.name() + ")";
  all_well_ = false;
  return true;
}

// "    0         1         2         1         2         2   RUNNING      OK"
void Explanation::read_table_row(Scanner line) {
  line.skip_spaces();
  if (!line.number()) return;
  line.skip_spaces();
  const auto count = line.number();
  line.skip_spaces();
  const auto nodes = line.number();
  line.skip_spaces();
  line.name();  // the ranks per node may be a range
  line.skip_spaces();
  const auto ranks = line.number();
  line.skip_spaces();
  line.number();
  line.skip_spaces();
  const std::string status = line.name();
  if (!count || !nodes || !ranks || status.empty()) return;
  communicators_ += *count;
  if (status != "RUNNING") all_well_ = false;
  say(counted(*count, "communicator", "communicators") + " of " + counted(*ranks, "rank", "ranks") + " on " +
      counted(*nodes, "host", "hosts") + ": " + status_text(status));
}

bool Explanation::read_topic(Scanner line) {
  if (line.take("Communicator ranks have different status")) {
    begin(Topic::kStatus);
    return true;
  }
  if (line.take("Communicator ranks have different ")) {
    begin(Topic::kOperations);
    function_ = function_text(line.name());
    return true;
  }
  if (line.take("Initialization error") || line.take("Asynchronous error")) {
    begin(Topic::kErrors);
    return true;
  }
  if (line.take("Missing communicator data from ")) {
    const std::uint64_t count = line.number().value_or(0);
    begin(line.take(" job process") ? Topic::kSilent : Topic::kMissingRanks, count);
    return true;
  }
  if (line.take("Encountered ")) {
    all_well_ = false;
    say(counted(line.number().value_or(0), "answer", "answers") + " of other processes did not arrive in time");
    return true;
  }
  const auto count = line.number();
  if (!count || !(line.take(" job process is considered dead") || line.take(" job processes are considered dead"))) {
    return false;
  }
  begin(Topic::kDead, *count);
  return true;
}

void Explanation::read_group(Scanner line) {
  if (read_rank(line)) return;
  const auto count = line.number();
  if (!count || !line.take(" ranks ")) return;
  if (auto group = read_finding(line, *count)) groups_.push_back(std::move(*group));
}

// "Rank 2 has status INIT -- GPU …", or "Rank 2 -- GPU …" of the group before it.
bool Explanation::read_rank(Scanner line) {
  if (!line.take("Rank ")) return false;
  const auto rank = line.number();
  if (!rank) return true;
  const Place place = read_place(line);
  if (line.take(" -- ")) {
    if (groups_.empty()) groups_.push_back({.count = topic_count_});
    if (groups_.back().ranks.size() < 2 * kMaxNamed) groups_.back().ranks.emplace_back(*rank, place);
    return true;
  }
  line.take(" ");
  if (auto group = read_finding(line, 1)) {
    group->ranks.emplace_back(*rank, place);
    groups_.push_back(std::move(*group));
  }
  return true;
}

std::optional<Group> Explanation::read_finding(Scanner& line, std::uint64_t count) const {
  Group group;
  group.count = count;
  if (line.take("reported ")) {
    group.finding = error_text(line);
    return group;
  }
  if (!line.take("has ") && !line.take("have ")) return std::nullopt;
  if (line.take("status ")) {
    group.finding = status_text(line.name());
    return group;
  }
  if (line.take("not launched any operations")) return group;
  if (!line.take("launched up to operation ")) return std::nullopt;
  group.operation = line.number().value_or(0);
  return group;
}

void Explanation::begin(Topic topic, std::uint64_t count) {
  close_topic();
  all_well_ = false;
  topic_ = topic;
  topic_count_ = count;
}

std::string Explanation::processes() const {
  std::string text;
  for (std::size_t i = 0; i < std::min(processes_.size(), kMaxNamed); ++i) {
    text += (i > 0 ? "; " : ": ") + processes_[i].text();
  }
  return processes_.size() > kMaxNamed ? text + "; and more" : text;
}

std::string Explanation::sentence(const char* between) const {
  std::string text = communicator_ + ": ";
  for (std::size_t i = 0; i < std::min(groups_.size(), kMaxNamed); ++i) {
    text += (i > 0 ? "; " : "") + groups_[i].who() + between + groups_[i].finding;
  }
  return groups_.size() > kMaxNamed ? text + "; and more" : text;
}

void Explanation::close_topic() {
  switch (std::exchange(topic_, Topic::kNone)) {
    case Topic::kNone:
      break;
    case Topic::kOperations:
      say_operations();
      break;
    case Topic::kStatus:
      say(sentence(": "));
      break;
    case Topic::kErrors:
      say(sentence(" reported: "));
      break;
    case Topic::kMissingRanks:
      say(communicator_ + ": no data arrived from " +
          (groups_.empty() ? counted(topic_count_, "rank", "ranks") : groups_[0].who()));
      break;
    case Topic::kSilent:
      say(counted(topic_count_, "process does", "processes do") + " not answer (stopped, or a host that is cut off)" +
          processes());
      break;
    case Topic::kDead:
      say(counted(topic_count_, "process is", "processes are") + " considered dead" + processes());
      break;
  }
  groups_.clear();
  processes_.clear();
}

void Explanation::say_operations() {
  if (groups_.empty()) return;
  std::uint64_t max = 0;
  for (const Group& group : groups_) max = std::max(max, group.operation);
  std::string behind;
  for (Group& group : groups_) {
    group.finding = group.operation == 0 ? "no " + function_ : function_ + " " + std::to_string(group.operation);
    if (group.operation < max) behind += (behind.empty() ? "" : "; ") + group.who();
  }
  say(sentence(" started "));
  if (groups_.size() > kMaxNamed || behind.empty()) return;
  say("the others wait for " + behind + ": its program has not called the " + function_ +
      " yet (data, an exception, a lock); the network is not the cause");
}

std::vector<std::string> Explanation::finish() {
  close_topic();
  if (all_well_ && reported_all_ && communicators_ > 0) {
    say("all ranks started the same collectives and none reported an error: if they make no progress, the cause is the "
        "network or a kernel, not a rank that did not call");
  }
  return std::move(lines_);
}

bool is_report(std::string_view text) {
  return text.starts_with("NCCL version ") || text.find("\nNCCL version ") != std::string_view::npos;
}

}  // namespace

std::vector<std::string> explain_ras_report(std::string_view report) {
  if (!is_report(report)) return {};
  Explanation explanation;
  while (!report.empty()) {
    const auto end = std::min(report.find('\n'), report.size());
    explanation.read(report.substr(0, end));
    report.remove_prefix(std::min(end + 1, report.size()));
  }
  return explanation.finish();
}

}  // namespace elastictrain::launcher
