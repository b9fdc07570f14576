// Purpose: makes a report's figures from the records of a journal, oldest first. Pure. Memory is bounded, whatever the
// length of the journal.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/report/report.h"
#include "heuristics/policy/view.h"
#include "supervisor/core/pure/records.h"

namespace elastictrain::cli::run_report {

class Collector {
 public:
  // `up_s`: since the start of the run; `unix_s`: 0 if it is not known.
  void take(const core::Record& record, double up_s, double unix_s);
  Report result() const;

 private:
  template <class R>
  void on(const R&) {}  // not shown
  void on(const core::record::RunOpened& opened);
  void on(const core::record::RunResumed& resumed);
  void on(const core::record::RunClosed& closed);
  void on(const core::record::TakenOver& taken);
  void on(const core::record::End& end);
  void on(const core::record::Audit& audit);
  void on(const core::record::Note& note);
  void on(const core::record::Spawn& spawn);
  void on(const core::record::Active& active);
  void on(const core::record::Finished& finished);
  void on(const core::record::Left& left);
  void on(const core::record::Exited& exited);
  void on(const core::record::Vanished& vanished);
  void on(const core::record::Prepare& prepare);
  void on(const core::record::Cancel& cancel);
  void on(const core::record::Commit& commit);
  void on(const core::record::GenerationComplete& complete);
  void on(const core::record::Idle& idle);
  void on(const core::record::Abort& abort);
  void on(const core::record::HaltSettled& settled);
  void on(const core::record::BelowMin& below);
  void on(const core::record::StateLost& lost);
  void on(const core::record::Loss& loss);
  void on(const core::record::Hang& hang);
  void on(const core::record::Stuck& stuck);
  void on(const core::record::PlainRestart& restart);
  void on(const core::record::AgentLost& lost);
  void on(const core::record::HostNotice& notice);
  void on(const core::record::HostCooled& cooled);
  void on(const core::record::Observed& observed);
  void on(const core::record::Decided& decided);

  void note(IncidentKind kind, std::string what);
  void size_is(std::uint64_t workers);
  void step_is(Step step) { report_.steps = std::max(report_.steps, step); }
  Change* change_to(Generation generation);
  WorkerReport* worker(std::uint64_t id);
  void ends(WorkerReport& worker, const std::string& how, bool failed);
  void add_intervals(const heuristics::JobView& job);
  void add_members(const heuristics::ClusterView& view, const heuristics::JobView& job);
  void add_member(const heuristics::WorkerView& member, const std::string& host, double usual_compute_s);

  Report report_;
  double now_s_ = 0;
  double now_unix_s_ = 0;
  double last_view_s_ = 0;
  std::uint64_t size_ = 0;
  std::string last_straggler_;
};

}  // namespace elastictrain::cli::run_report
