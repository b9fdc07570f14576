// Purpose: a sweep while it runs: submits its trials to a cluster, reads their reports, and stops those that the
// rule names.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/cluster/sweep_program.h"
#include "cli/commands/cluster/sweep_state.h"
#include "cli/commands/cluster_client.h"
#include "cli/config/sweep_file.h"
#include "cli/output/cluster_text.h"

// Makes a trial of a sweep a job of its cluster, as `elastictrain submit` does it.
//
// Thread: one, which waits. Errors: the status and the text of submit.

namespace elastictrain::cli {

struct SweepPlace {
  std::string cluster_directory;
  std::string config_directory;  // of the sweep's file: paths in it are relative to it
};

struct SubmitAnswer {
  int status = 0;    // exit status of submit
  std::string text;  // why it was refused, in one line
};

SubmitAnswer submit_trial(const SweepTrial& trial, const SweepPlace& place);

// A sweep while it runs: submits its trials to a cluster, reads what they report, stops those that the rule
// names, and shows all of them until none is left.
//
// The cluster decides on slots, turns and sizes: what a stopped trial had, the others get without a restart. A sweep
// that ends leaves its trials to the cluster; the next one of its file goes on.
//
// Thread: one, which waits. Errors: one line on standard error, and the exit status.

enum class SweepShows { kTable, kEvents, kNothing };  // a table that is drawn again and again; a line for each news

class SweepRun {
 public:
  SweepRun(SweepFile file, std::vector<SweepTrial> trials, SweepState state, SweepPlace place);

  // Until all trials have ended. Returns an exit status.
  int run(SweepShows shows);
  // Ends those that have not. Returns an exit status.
  int cancel();

  SweepView view() const;

 private:
  struct Live {
    std::string id, state = "not submitted", directory, why;
    std::string note;       // of the user's program
    std::string not_ended;  // why the cluster did not cancel it
    std::uint64_t slots = 0;
    bool is_live = false;   // a job of the cluster that has not ended
    bool is_known = false;  // the cluster has told of it
    bool has_begun = false;
    bool is_cancelled = false;
  };

  using Clock = std::chrono::steady_clock;

  int begin();
  int names_in_use(const nlohmann::json& cluster) const;
  bool all_over() const;
  bool any_submitted() const;
  int submit_missing();
  int submit(std::size_t trial);
  int refused(std::size_t trial, const SubmitAnswer& answer);
  ClusterAnswer look();
  void take(const nlohmann::json& cluster);
  void take_begun(std::size_t trial, const nlohmann::json* job);
  void take_job(std::size_t trial, const nlohmann::json& job);
  void take_lost(std::size_t trial);
  void note_end(std::size_t trial, int status);
  void restore_reports();
  int read_reports();
  void judge();
  void take_answer();
  void stop(std::size_t trial, const std::string& reason);
  void cancel_stopped();
  void end_trial(std::size_t trial);
  void wait_for_news();
  void end_program();
  heuristics::sweep::Trial results_of(std::size_t trial) const;
  std::string state_of(std::size_t trial) const;
  std::string why_of(std::size_t trial) const;
  void say(const std::string& what) const;
  void warn(const std::string& what) const;
  int keep();

  SweepFile file_;
  std::vector<SweepTrial> trials_;
  SweepState state_;
  SweepPlace place_;
  SweepShows shows_ = SweepShows::kNothing;
  std::vector<Live> live_;
  std::vector<SweepReports> reports_;
  SweepReportFile report_file_;
  std::string best_;
  std::string problem_;            // of the user's program
  Clock::time_point submit_next_;  // after a refusal
  asio::io_context io_;
  std::unique_ptr<SweepProgram> program_;
};

}  // namespace elastictrain::cli
