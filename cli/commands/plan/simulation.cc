#include "cli/commands/plan/simulation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "cli/traces/traces.h"
#include "heuristics/sharing/policy.h"
#include "launcher/agent/host_facts.h"
#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

using heuristics::cluster::Change;

void simulate_one(SimulatedRun& run, bool keep_changes) {
  const auto start = std::chrono::steady_clock::now();
  std::function<void(const Change&)> watch;
  if (keep_changes) watch = [&](const Change& change) { run.changes.push_back(change); };
  run.outcome = heuristics::cluster::simulate(*run.trace, *run.policy, run.options, watch);
  if (run.outcome.problem.empty()) {
    run.figures = heuristics::cluster::figures_of(*run.trace, run.outcome, run.options.slots);
  }
  run.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void simulate_all(std::vector<SimulatedRun>& runs, bool keep_first_changes,
                  const std::function<void(std::size_t)>& done) {
  std::atomic<std::size_t> next = 0;
  std::size_t ended = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t place = next++; place < runs.size(); place = next++) {
      simulate_one(runs[place], keep_first_changes && place == 0);
      const std::lock_guard lock(mutex);
      done(++ended);
    }
  };
  std::vector<std::thread> threads;
  const std::size_t cores = launcher::usable_cores();
  for (std::size_t i = 1; i < std::min(cores, runs.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

namespace {

namespace replay = cluster::replay;

constexpr const char* kJournal = "journal.jsonl";
constexpr const char* kBefore = "journal.1.jsonl";  // the whole one, if the cluster has shortened it

// Lines of journals, one after the other.
class JournalLines {
 public:
  void read(const std::string& text) {
    const std::uint64_t read_before = sequence_;
    hosts_.clear();
    std::uint64_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      ++number;
      take(text.substr(at, end - at), number, read_before);
      at = end + 1;
    }
  }

  std::vector<replay::Line> lines;
  std::uint64_t unreadable = 0;
  std::uint64_t first_unreadable = 0;  // its number, from 1
  bool any_event = false;              // some are those of another journal

 private:
  void take(const std::string& text, std::uint64_t number, std::uint64_t read_before) {
    if (text.find_first_not_of(" \r") == std::string::npos) return;
    const auto line = cluster::read_journal_line(text, hosts_);
    if (!line) {
      if (unreadable++ == 0) first_unreadable = number;
      const nlohmann::json other = parse_json(text);
      any_event = any_event || (other.is_object() && other.contains("event"));
      return;
    }
    if (const auto* hosts = std::get_if<cluster_core::record::Hosts>(&line->record)) hosts_ = hosts->hosts;
    sequence_ = std::max(sequence_, line->sequence);
    if (line->sequence > read_before) lines.push_back({line->record, line->up_s});
  }

  std::vector<cluster_core::HostLine> hosts_;
  std::uint64_t sequence_ = 0;
};

Result<std::string> path_of(const std::string& given) {
  std::error_code failed;
  if (!std::filesystem::is_directory(given, failed)) return given;
  const auto path = std::filesystem::path(given) / kJournal;
  if (std::filesystem::exists(path, failed)) return path.string();
  return Error{ErrorCode::kNoInput, given + ": there is no " + kJournal + " in it, so it is no directory of a cluster"};
}

Status read_lines(const std::string& path, JournalLines& lines) {
  const auto before = std::filesystem::path(path).parent_path() / kBefore;
  std::error_code failed;
  if (std::filesystem::path(path).filename() == kJournal && std::filesystem::exists(before, failed)) {
    const auto text = read_bounded(before.string());
    if (!text.ok()) return text.error();
    lines.read(*text);
  }
  const auto text = read_bounded(path);
  if (!text.ok()) return text.error();
  lines.read(*text);
  if (!lines.lines.empty()) return {};
  if (lines.unreadable == 0) return Error{ErrorCode::kInvalid, path + ": it is empty"};
  return Error{
      ErrorCode::kInvalid,
      path + (lines.any_event ? ": this is a journal, but not that of a cluster (elastictrain cluster); a run's "
                                "journal is for explain and report"
                              : ": this is no journal of a cluster")};
}

// A policy that was named, or that of the journal.
Status suits(const std::string& path, const replay::Past& past, const std::string& policy, bool is_named) {
  const bool built_in =
      heuristics::sharing::find_sharing_policy(policy) != nullptr && (is_named || !past.rules.outside);
  if (!built_in) {
    return Error{ErrorCode::kInvalid, path + ": a program or library decided (" + policy +
                                          "), which a replay does not call; name built-in policies by --policy"};
  }
  if (policy != "max-min-fluid") return {};
  return Error{ErrorCode::kInvalid, "--policy: max-min-fluid gives parts of slots, which no cluster can run"};
}

}  // namespace

Result<Replayed> replay_journal(const ReplayFlags& flags) {
  const auto path = path_of(flags.journal);
  if (!path.ok()) return path.error();
  JournalLines lines;
  if (const Status read = read_lines(*path, lines); !read.ok()) return read.error();
  auto past = replay::past_of(lines.lines);
  if (!past.ok()) return Error{past.error().code, *path + ": " + past.error().message};
  Replayed replayed;
  if (lines.unreadable > 0) {
    replayed.notes.push_back(*path + ": " + protocol::counted(lines.unreadable, "line") +
                             " cannot be read, the first is line " + std::to_string(lines.first_unreadable) +
                             ": they are left out");
  }
  for (const std::string& note : past->notes) replayed.notes.push_back(*path + ": " + note);
  const bool is_named = !flags.policies.empty();
  for (const std::string& policy : is_named ? flags.policies : std::vector<std::string>{past->policy}) {
    if (const Status good = suits(*path, *past, policy, is_named); !good.ok()) return good.error();
    replay::Prediction prediction = replay::replay(*past, policy);
    if (!prediction.problem.empty()) return Error{ErrorCode::kInvalid, *path + ": " + prediction.problem};
    replayed.report.predictions.push_back(std::move(prediction));
  }
  replayed.report.past = std::move(*past);
  return replayed;
}

}  // namespace elastictrain::cli
