// Purpose: a cluster that many runs share, as a state machine: step(event, now) gives the actions to carry out. It
// keeps the jobs' lives, the users' limits, the policy's decisions and the leases; it knows no sockets, files or
// processes.
//
// Rules that hold after every step (broken_rules()): a slot is leased to one run, to two only where a decision packed
// them; it passes on when its holder has given it back or cannot use it any more; versions of a lease only rise; what
// is recorded comes before what is done.
//
// Ownership: owns everything it holds. Thread: one. Deterministic: the same events at the same times from the same seed
// give the same actions. Errors: what a run or a user does wrong is answered; nothing throws.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/leases/lease_book.h"
#include "heuristics/placement/placement.h"
#include "heuristics/placement/repair.h"
#include "heuristics/sharing/policy.h"
#include "heuristics/sharing/whole_shares.h"
#include "supervisor/cluster/core/action.h"
#include "supervisor/cluster/core/event.h"
#include "supervisor/cluster/core/job.h"
#include "supervisor/cluster/core/record.h"

namespace elastictrain::jobs {

struct Settings {
  std::string version;
  std::string policy = "afs-p";  // known to sharing_policies(), whole slots only; or the name of one from outside
  bool outside = false;          // it is asked by AskPolicy; kStandIn decides where it does not answer
  double slice_s = 0;            // of policies with time slices; 0: their own
  double decide_after_s = 0.05;  // what happens within it is decided together
  double recall_timeout_s = 60;  // for a run to give back a slot
  double resume_timeout_s = 10;  // for runs to come back after a restart of the cluster process
  double join_timeout_s = 300;   // for a started run to join
  double orphan_grace_s = 120;   // after which a run without a supervisor has no workers left
  double probe_interval_s = 1;   // between two looks at a run whose connection was lost
  std::uint32_t suspended_per_slot = 0;  // jobs that may stand still in memory there; 0: none does
  bool packing = false;                  // two jobs may share slots, under a policy that packs
  bool estimated_lengths = false;        // a job that does not say its length has that which its loss says
  bool migration = true;                 // workers may move between hosts, where that pays
  std::uint32_t most_slots = 0;          // up to which helper jobs bring more; 0: none do
  double least_gain = 0.5;               // see demand()
  std::uint32_t max_failures = 5;        // in a row, without progress
  std::uint32_t max_jobs = 20'000;       // that have not ended
  std::size_t kept_ended = 1000;
  std::uint64_t seed = 1;
  std::function<Limits(const Owner&)> limits = [](const Owner&) { return Limits{}; };
};

record::Rules rules_of(const Settings& settings);

// Decides in place of a policy from outside that gives no decision.
inline constexpr const char* kStandIn = "max-min";

// What the hosts of a cluster are used for, for whoever gets more of them.
struct SlotDemand {
  struct HostUse {
    std::string name;
    std::uint32_t slots = 0;  // 0: the list of hosts lacks it
    std::uint32_t used = 0;   // slots with processes of runs, at most
  };
  std::uint32_t needed = 0;  // slots that jobs could use now
  std::string why;           // who lacks some
  std::vector<HostUse> hosts;
};

class Cluster {
 public:
  explicit Cluster(Settings settings);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Before begin(): what the journal of the previous process says.
  void recall(const Record& record, double now_s);
  // Whether a journal without this record would say something else of what is known now.
  bool needs(const Record& record) const;
  // After the last record. Runs that may be there are given resume_timeout_s to come back and to say what they know.
  Actions begin(double now_s);
  Actions step(const Event& event, double now_s);
  // When to step(Tick) at the latest; infinite: never.
  double wake_s(double now_s);

  const Settings& settings() const { return settings_; }
  const std::map<JobId, Job>& jobs() const { return jobs_; }
  const heuristics::leases::LeaseBook& book() const { return book_; }
  const std::vector<HostLine>& hosts() const { return hosts_; }  // by number; slots 0: gone
  std::uint32_t slots() const;
  // A job that waits could use the slots that its user would run it on. One that trains could use one more slot if that
  // brings at least `least_gain` of what its slots bring on average, up to twice what it has been measured with.
  // Within the limits of users; what is paused or over needs nothing. At most `most_slots`.
  SlotDemand demand() const;
  const std::vector<HostLine>& helpers() const { return helpers_; }
  // Slots that a request in progress asks for, and since when; 0: there is none.
  std::uint32_t asked_slots() const { return asked_slots_; }
  double asked_s() const { return asked_s_; }
  bool resuming() const { return resuming_; }
  // Jobs without slots that may have some, in the order in which they are considered.
  std::vector<JobId> waiting() const;
  // Seconds until the job ends if nothing changes; nothing: not known.
  std::optional<double> left_s(const Job& job) const;
  // Samples of the whole job, as decisions count them.
  std::optional<double> length_of(const Job& job) const;
  std::uint64_t decisions() const { return decisions_; }
  // Why the stand-in decides and not the policy from outside; empty: that decides.
  const std::string& policy_problem() const { return policy_problem_; }
  // Empty: it may be a job of this cluster now. Else why not, and the kind of reason.
  std::string refusal(const Owner& owner, const Limits& limits, const JobSpec& spec, Outcome& outcome) const;

  std::vector<std::string> broken_rules() const;

 private:
  using Holder = heuristics::leases::Holder;

  // One decision: shares of all jobs, and the slots that they mean. In deciding.cc and placing.cc.
  struct Round;
  void decide(double now_s);
  void go_on_deciding(double now_s);
  void gather(Round& round, double now_s);
  bool ask_policy(Round& round, double now_s);
  bool ask_for(Round& round, std::size_t first, std::size_t last, std::uint32_t& slots, double now_s);
  void ask_built_in(const heuristics::sharing::View& view, heuristics::sharing::Decision& decision);

  // A policy from outside. In asking.cc.
  struct Said {
    std::shared_ptr<const PolicyQuestion> asked;
    heuristics::sharing::Decision decision;
  };
  bool ask_outside(Round& round, std::size_t first, PolicyQuestion& question, heuristics::sharing::Decision& decision);
  void ask(const Round& round, std::size_t first, PolicyQuestion question);
  static heuristics::sharing::Decision answered_for(const Said& said, const Round& round, std::size_t first,
                                                    const heuristics::sharing::View& view);

  heuristics::sharing::JobView view_of(const Round& round, std::size_t place) const;
  std::uint32_t most_of(const Job& job, std::uint32_t slots) const;
  void bound(Round& round, double now_s);
  void place(Round& round);
  std::vector<std::vector<heuristics::placement::Piece>> pieces(const Round& round,
                                                                const std::vector<Slots>& planned) const;
  std::vector<std::uint32_t> room_beside(const Round& round, std::size_t place, const std::vector<Slots>& planned,
                                         const std::vector<std::uint32_t>& free) const;
  std::vector<heuristics::placement::Piece> pieces_within(const Round& round, std::size_t place,
                                                          const std::vector<Slots>& planned,
                                                          const std::vector<std::uint32_t>& room) const;
  std::uint32_t reach_of(const JobSpec& spec) const;
  void place_smaller(const Round& round, std::vector<std::vector<heuristics::placement::Piece>>& placed) const;
  std::vector<std::uint32_t> room_for(const Job& job, const std::vector<std::uint32_t>& free) const;
  void adopt(Round& round, double now_s);
  void withdraw_unused(double now_s);

  // Jobs that stand still in memory. In resting.cc.
  struct Claimed;
  bool is_away(const Job& job) const;
  bool can_stand(const Job& job) const;
  bool is_to_stand(const Job& job, std::uint32_t share) const;
  void find_full(Round& round) const;
  Slots room_for_new(const Round& round, const Claimed& claimed) const;
  Slots within_reach(const Round& round, const Job& job, const Claimed& claimed) const;
  Slots own_place(const Round& round, const Job& job) const;
  void exchange(Round& round) const;
  bool can_displace(const Round& round, const Slots& slots) const;
  struct Freed;
  void give_turns(Round& round, bool working, Claimed& claimed, Freed& freed) const;
  void reserve(Round& round) const;

  // Two jobs in the same slots. In packing.cc.
  bool may_pack(const Job& job) const;
  std::optional<std::uint64_t> only_beside(const Round& round, const Job& job) const;
  void tell_of_packing(const Round& round, std::size_t place, heuristics::sharing::JobView& view) const;
  void seat_guests(Round& round) const;
  static std::string packing_text(const Round& round, std::size_t place);
  static const Job* only_one_that_grows(const Round& round);

  // Workers that move between hosts. In migrating.cc.
  bool is_whole(const Round& round, const Slots& slots) const;
  Slots leaving(const Job& job) const;
  bool goes_back(const Round& round, const Job& job) const;
  void keep_moves(Round& round) const;
  bool is_steady(const Round& round, std::size_t place, double now_s) const;
  std::vector<std::vector<bool>> free_slots(const Round& round) const;
  heuristics::placement::Resident resident_of(const Round& round, std::size_t place, double now_s) const;
  std::vector<heuristics::placement::Seeker> seekers(const Round& round, std::vector<std::size_t>& places) const;
  void repair(Round& round, double now_s);
  bool judge(Round& round, const std::vector<std::vector<bool>>& free, double now_s);
  void begin_move(Round& round, std::size_t place, Move move);
  void end_moves(const Round& round, double now_s);
  void end_move(Job& job, record::MoveOutcome outcome, const std::string& why, double now_s);
  void take_moved(Job& job, double now_s);
  std::string move_text(const Job& job) const;

  // In deadlines.cc.
  static double deadline_at_s(const Job& job);
  std::optional<std::uint32_t> slots_in_time(const Job& job, const heuristics::sharing::Curve& curve,
                                             std::uint32_t most, double now_s) const;
  bool falls_behind(const Job& job, double now_s) const;
  void meet_deadlines(Round& round, std::vector<heuristics::sharing::Bounds>& bounds, double now_s) const;
  void meet_deadlines_of(Round& round, std::vector<heuristics::sharing::Bounds>& bounds, std::size_t first,
                         std::size_t last, std::uint32_t room, double now_s) const;
  std::string deadline_text(const Job& job, double now_s) const;
  heuristics::sharing::Curve foreseen(const Job& job, std::uint32_t most, bool& known) const;
  std::string deadline_answer(const Job& job, double now_s) const;

  // In growth.cc.
  std::uint32_t useful_slots(const Job& job) const;
  std::uint32_t reach_with_helpers(const JobSpec& spec) const;
  std::uint32_t own_slots() const;
  std::uint32_t slots_with_helpers() const { return std::max(slots(), settings_.most_slots); }

  void handle(const HostsChanged& event, double now_s);
  void handle(const HelpersChanged& event, double now_s);
  void handle(const Submit& event, double now_s);
  void handle(const Join& event, double now_s);
  void handle(const Report& event, double now_s);
  void handle(const RunEnded& event, double now_s);
  void handle(const Disconnected& event, double now_s);
  void handle(const ProcessEnded& event, double now_s);
  void handle(const Probed& event, double now_s);
  void handle(const Command& event, double now_s);
  void handle(const PolicyAnswered& event, double now_s);
  void handle(const Tick&, double now_s);

  // Orders and submissions.
  Job& admit(const Owner& owner, const Limits& limits, const JobSpec& spec, double unix_s, double now_s);
  Job* find(const std::string& id_or_name, const Owner& owner, std::string& problem);
  std::string carry_out(Job& job, const Command& command, double now_s);
  void change_priority(Job& job, std::int32_t priority, double now_s);

  // Runs that come and go.
  Job* job_of(Connection connection);
  Job* known(const Join& event, std::string& problem);
  std::string refusal(const Join& event, const Job* job) const;
  std::string misfit(const Owner& owner, const Limits& limits, const JobSpec& spec, Outcome& outcome) const;
  std::string claims_too_much(const Join& event, JobId id) const;
  void take_in(Job& job, const Join& event, double now_s);
  void hear(Job& job, std::uint64_t lease, const Slots& holds, bool stands, double now_s);
  void take_figures(Job& job, const Report& report, double now_s);
  bool take_lost(Job& job, const std::vector<std::uint32_t>& reported, double now_s);
  void look_at_losses(Job& job, double now_s);
  void block_lost(Round& round) const;
  bool is_worked_on(std::uint32_t host) const;
  bool take_rates(Job& job, const Report& report, record::Learned& learned) const;
  void take_start(Job& job, const Report& report, record::Learned& learned, double now_s);
  void take_length(Job& job, const Report& report, record::Learned& learned, double now_s);
  void take_goodput(Job& job, const Report& report, double now_s);
  void lose(Job& job, double now_s);
  void leave(Job& job, int status, double now_s);
  void left(Job& job, int status, const std::string& why, double now_s);
  void failed(Job& job, int status, const std::string& why, double now_s);
  static std::vector<RateSeen> rates_of(const Job& job);
  void count_last_steps(Job& job) const;
  void finish(Job& job, int status, const std::string& why, double now_s);
  void end(Job& job, const std::string& why, double now_s);
  void start(Job& job, double now_s);
  void start_due(double now_s);
  double due_s(const Job& job, double now_s) const;
  void look_after(Job& job, double now_s);
  void press(Job& job, double now_s);
  void recall_in_time(Job& job, double now_s);
  void forget_old();

  void account(Job& job, double now_s);
  void settle(double now_s);
  void send_lease(const Job& job);
  void send_places();
  void decide_soon(double now_s, const std::string& trigger);
  void check_resumed(double now_s);
  void write(Record record) { actions_.emplace_back(Write{std::move(record)}); }
  bool at_work(const Job& job) const;
  bool pinned(const Job& job) const;

  Settings settings_;
  const heuristics::sharing::PolicySpec* spec_;
  std::unique_ptr<heuristics::sharing::SharingPolicy> policy_;
  std::map<std::int32_t, std::unique_ptr<heuristics::sharing::State>> states_;  // by priority
  heuristics::sharing::Rng rng_;
  heuristics::leases::LeaseBook book_;
  std::vector<HostLine> hosts_;
  std::vector<HostLine> helpers_;
  std::uint32_t asked_slots_ = 0;
  double asked_s_ = 0;
  std::map<JobId, Job> jobs_;
  std::map<Connection, JobId> connections_;
  std::uint64_t last_seen_as_ = 0;
  struct Gone {
    std::uint64_t seen_as;
    std::int32_t priority;
    std::uint32_t requested;
    double slot_s, work;
  };
  std::vector<Gone> gone_;         // since the last decision began
  std::vector<Gone> gone_before_;  // that the present one is told of
  std::vector<double> lengths_;    // samples of jobs that have ended, ascending
  JobId last_job_ = 0;
  bool resuming_ = false;
  double resume_until_s_ = 0;
  double decide_s_ = kNever;
  double again_s_ = kNever;
  bool left_idle_ = false;  // the last decision gave less than there was, because something has to happen before
  std::optional<double> jobs_due_s_;  // the least due_s(); nothing: to be found again
  std::string trigger_;
  std::string because_;  // the trigger of the present decision
  std::uint64_t decisions_ = 0;
  // Of the policy from outside.
  std::uint64_t questions_ = 0;
  std::shared_ptr<const PolicyQuestion> asked_;  // the question that is not answered yet
  std::map<std::int32_t, Said> said_;            // in the present decision, by priority
  bool policy_gone_ = false;
  std::string policy_problem_;
  Actions actions_;
};

// What a policy is told of a job's throughput: what was measured, and a line through it elsewhere. `guess`: samples a
// second of one worker, where nothing was measured.
heuristics::sharing::Curve curve_of(const Job& job, std::uint32_t most, double guess);
heuristics::sharing::Curve goodput_of(const Job& job, std::uint32_t most, const heuristics::sharing::Curve& throughput);

}  // namespace elastictrain::jobs
