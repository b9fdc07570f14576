#include "supervisor/policy/runner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "supervisor/policy/external_policy.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::policy {

namespace {

constexpr const char* kFixed = "fixed";
constexpr double kFixedInterval_s = 10;  // a run of fixed size is only observed
constexpr double kUsualInterval_s = 1;
constexpr double kLookAgain_s = 1;
constexpr std::size_t kMaxJournalledMembers = 256;  // a view of more is journalled without them
constexpr double kSameFactor = 0.01;  // of the learning rate: a smaller change does not justify a new generation

// In a replay, policies that look at the job as a whole decide the same without them.
std::string journal_text(heuristics::ClusterView view) {
  for (auto& job : view.jobs) {
    if (job.members.size() > kMaxJournalledMembers) job.members.clear();
  }
  return to_json(view);
}

// What the decision requests besides a number of workers and is not yet in effect.
std::optional<core::UpdatePlan> update_of(const core::RunView& run, const heuristics::JobDecision& decision) {
  core::UpdatePlan update;
  update.per_worker = decision.per_worker_batch;
  update.reason = decision.reason.text;
  if (decision.speeds) {
    update.speeds.emplace();
    for (const auto& one : *decision.speeds) {
      if (one.worker > std::numeric_limits<std::uint32_t>::max()) continue;  // no worker's
      (*update.speeds)[WorkerId{static_cast<std::uint32_t>(one.worker)}] = one.speed;
    }
  }
  const auto factor = decision.learning_rate_factor;
  if (factor && std::abs(*factor - run.learning_rate_factor) > kSameFactor * run.learning_rate_factor) {
    update.learning_rate_factor = factor;
  }
  if (decision.topology && *decision.topology != protocol::text_of(run.topology, run.parents)) {
    if (auto choice = protocol::topology_choice(*decision.topology); choice && choice->parents.empty()) {
      update.topology = choice->topology;
    } else if (choice) {
      update.parents = std::move(choice->parents);
    }
  }
  if (decision.synchronization) update.synchronization = protocol::synchronization_named(*decision.synchronization);
  if (update.synchronization == run.synchronization) update.synchronization.reset();
  const bool changes = update.speeds || update.per_worker || update.learning_rate_factor || update.topology ||
                       update.parents || update.synchronization;
  if (!changes) return std::nullopt;
  return update;
}

// Of one policy, or of a policy and the watch over stragglers beside it.
bool is_waiting(const std::string& code) {
  const std::string waits = heuristics::kChanging;
  return code == waits || code == waits + "+" + waits;
}

}  // namespace

Runner::Runner(RunnerSettings settings) : Runner(settings, make_policy(settings)) {}

Runner::Runner(RunnerSettings settings, std::unique_ptr<heuristics::Policy> policy)
    : settings_(std::move(settings)),
      policy_(std::move(policy)),
      rng_(settings_.seed),
      observer_(settings_.observer),
      noise_(settings_.learning_rate, settings_.observer.max_workers),
      convergence_(settings_.convergence) {
  state_ = policy_->initial_state();
  if (settings_.interval_s <= 0) settings_.interval_s = is_fixed() ? kFixedInterval_s : kUsualInterval_s;
}

Runner::~Runner() = default;

bool Runner::is_fixed() const {
  const auto action = settings_.stragglers.find("action");
  const bool acts = action != settings_.stragglers.end() &&
                    action->second != heuristics::Value(std::string("report")) &&
                    action->second != heuristics::Value(std::string("none"));
  const bool is_outside = !settings_.outside.library.empty() || !settings_.outside.program.empty();
  const bool follows_noise = settings_.learning_rate == heuristics::LearningRateRule::kAdaScale;
  return settings_.name == kFixed && settings_.companions.empty() && !is_outside && !acts && !follows_noise;
}

bool Runner::has_news() const {
  return !last_reason_.code.empty() && last_reason_.code != kFixed;
}

Status Runner::open(asio::io_context& io, Handlers handlers) {
  const Outside& outside = settings_.outside;
  if (!outside.library.empty()) {
    auto library = load_library(outside.library, outside.argument, settings_.seed);
    if (!library.ok()) return library.error();
    policy_ = make_policy(settings_, std::move(*library));
    state_ = policy_->initial_state();
  }
  if (!settings_.utility.program.empty()) {
    auto utility = UtilityProgram::start(io, settings_.utility, handlers.on_line);
    if (!utility.ok()) return utility.error();
    utility_ = std::move(*utility);
  }
  if (outside.program.empty()) return {};
  answered_ = std::move(handlers.answered);
  return open_program(io, std::move(handlers.on_line));
}

Status Runner::open_program(asio::io_context& io, std::function<void(const std::string& line)> on_line) {
  relayed_ = std::make_shared<heuristics::Decision>();
  policy_ = make_policy(settings_, relay(relayed_));
  state_ = policy_->initial_state();
  const auto answered = [this](const std::string& line) -> Status {
    auto decision = read_decision(line);
    if (!decision.ok()) return decision.error();
    answer(std::move(*decision));
    return {};
  };
  const auto failed = [this](const std::string& why) { answer(failed_decision("the program " + why)); };
  auto program = Program::start(io, settings_.outside, {answered, failed, std::move(on_line)});
  if (!program.ok()) return program.error();
  program_ = std::move(*program);
  return {};
}

void Runner::close() {
  if (program_) program_->close();
  if (utility_) utility_->close();
}

bool Runner::any_process() const {
  return (program_ && program_->is_running()) || (utility_ && utility_->is_running());
}

bool Runner::has_utility(const core::RunView& run, double now_s) {
  return !utility_ || utility_->is_settled([&] { return observer_.outline(run, now_s); });
}

// The view has no table from now on, so the policy falls back to its settings, and every decision says so.
void Runner::note_lost_utility(Considered& considered) {
  if (!utility_ || utility_->failure().empty()) return;
  const std::string key = "policy." + settings_.name + ".utility";
  const std::string text = utility_->failure() + "; " + key + " counts instead";
  considered.decision.reason.text += " (" + text + ")";
  if (!std::exchange(has_warned_of_utility_, true)) considered.failure = text;
}

// A failure of a program between two views is reported with the next one.
void Runner::answer(heuristics::Decision decision) {
  *relayed_ = std::move(decision);
  has_answer_ = asked_.has_value();
  if (has_answer_) answered_();
}

bool Runner::is_thinking() const {
  return program_ && (asked_ || (!program_->is_ready() && !program_->has_failed()));
}

void Runner::planned(const protocol::GenerationPlan& plan) {
  if (plan.members.empty()) return;
  std::uint64_t batch = 0;
  for (const auto& member : plan.members) batch += member.share;
  observer_.planned(plan.generation, plan.members.front().worker, static_cast<std::uint32_t>(plan.members.size()),
                    batch);
}

void Runner::on_heartbeat(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat, double now_s) {
  observer_.on_heartbeat(worker, heartbeat, now_s);
  if (!observer_.represents_job(worker, heartbeat.generation)) return;
  const auto samples = static_cast<double>(heartbeat.samples_used);
  const auto of_loss = static_cast<double>(heartbeat.loss_samples);
  if (heartbeat.loss_samples != 0) {
    convergence_.add(samples - of_loss / 2, heartbeat.mean_loss);
  } else if (heartbeat.loss != 0) {
    convergence_.add(samples, heartbeat.loss);
  }
}

std::optional<heuristics::ExpectedLength> Runner::expected_length(const core::RunView& run) const {
  if (observer_.samples_total(run) > 0) return std::nullopt;
  const auto found = convergence_.estimate(static_cast<double>(run.epoch_samples));
  if (!found) return std::nullopt;
  return heuristics::ExpectedLength{found->samples, found->error};
}

std::string Runner::no_expected_length(const core::RunView& run) const {
  if (observer_.samples_total(run) > 0 || convergence_.points() == 0) return "";
  return convergence_.why_not(static_cast<double>(run.epoch_samples));
}

void Runner::on_cpu_time(WorkerId worker, std::uint64_t cpu_ms, double now_s) {
  observer_.on_cpu_time(worker, cpu_ms, now_s);
}

// Also while workers start: the others train, and a newer decision replaces one that has not begun. A user's own policy
// may say "as many as now" in every view, and would take its growth back before it has begun.
bool Runner::may_decide(const core::RunView& run) const {
  const bool is_outside = !settings_.outside.library.empty() || !settings_.outside.program.empty();
  const bool gathers = run.phase == core::RunPhase::kChanging && run.gathering && !is_outside;
  return run.generation != 0 && (run.phase == core::RunPhase::kRunning || gathers);
}

void Runner::replay(const heuristics::ClusterView& view) {
  if (view.jobs.size() != 1) return;
  const heuristics::JobView& job = view.jobs.front();
  noise_.add(job);
  if (job.has_loss) convergence_.add(job.samples_done, job.loss);
  const auto decision = policy_->decide(view, *state_, rng_);
  if (decision.jobs.size() != 1) return;
  last_reason_ = decision.jobs[0].reason;
  if (!decision.jobs[0].goodput.empty()) goodput_ = decision.jobs[0].goodput;
}

std::optional<Considered> Runner::consider(const core::RunView& run, double now_s) {
  if (!is_due(now_s)) return std::nullopt;
  if (!may_decide(run)) {
    next_s_ = now_s + std::min(settings_.interval_s, kLookAgain_s);  // a snapshot of many workers is expensive
    return std::nullopt;
  }
  if (is_thinking() || !has_utility(run, now_s)) return std::nullopt;
  next_s_ = now_s + settings_.interval_s;
  heuristics::ClusterView view = observer_.take(run, now_s);
  if (utility_) view.jobs.front().utility = utility_->table();
  view.jobs.front().expected_length = expected_length(run);
  view.jobs.front().no_expected_length = no_expected_length(run);
  noise_.add(view.jobs.front());
  Considered considered;
  considered.observed = journal_text(view);
  if (program_ && program_->is_ready()) {
    asked_ = view;
    has_answer_ = false;
    program_->ask(to_json(view));
  } else {
    settle(run, policy_->decide(view, *state_, rng_), considered);
  }
  return considered;
}

std::optional<Considered> Runner::take_answer(const core::RunView& run) {
  if (!std::exchange(has_answer_, false)) return std::nullopt;
  Considered considered;
  settle(run, policy_->decide(*std::exchange(asked_, std::nullopt), *state_, rng_), considered);
  return considered;
}

void Runner::settle(const core::RunView& run, heuristics::Decision decision, Considered& considered) {
  if (decision.jobs.size() != 1) {
    considered.decision.reason = {"no_decision", "the policy returned no decision about this job", {}};
  } else {
    considered.decision = std::move(decision.jobs.front());
  }
  note_lost_utility(considered);
  if (!considered.decision.goodput.empty()) goodput_ = considered.decision.goodput;
  const heuristics::Reason& reason = considered.decision.reason;
  add_noise(considered);
  add_events(run, considered.decision, considered);
  // Nothing new: the decision that is being carried out stays the one that is shown.
  if (is_waiting(reason.code) && considered.events.empty() && considered.failure.empty()) return;
  const std::string before = last_reason_.code.empty() ? kFixed : last_reason_.code;
  considered.is_news = !considered.events.empty() || reason.code != before || !considered.failure.empty();
  if (reason.code.starts_with(kPolicyFailed) && !std::exchange(has_warned_, true)) considered.failure = reason.text;
  last_reason_ = reason;
}

// Before all else: a plan for another size must know it.
void Runner::add_noise(Considered& considered) {
  const auto noise_scale = noise_.take_news();
  if (!noise_scale) return;
  char reason[80];
  std::snprintf(reason, sizeof reason, "the gradients' noise scale is %.3g samples", *noise_scale);
  core::UpdatePlan update;
  update.reason = reason;
  update.noise_scale = noise_scale;
  considered.events.emplace_back(std::move(update));
}

void Runner::add_events(const core::RunView& run, const heuristics::JobDecision& decision,
                        Considered& considered) const {
  if (decision.workers) {
    const std::uint32_t wanted =
        std::clamp(*decision.workers, settings_.observer.min_workers, settings_.observer.max_workers);
    // What a lease limits is asked for once.
    if (wanted != run.target_size && wanted != run.asked_size)
      considered.events.push_back(core::Resize{.target = wanted, .reason = decision.reason.text, .by_policy = true});
  }
  for (const auto& replacement : decision.replacements) {
    const auto found = std::find_if(run.workers.begin(), run.workers.end(), [&](const core::WorkerView& worker) {
      return worker.worker.value == replacement.worker && worker.phase == core::WorkerPhase::kMember && worker.rank;
    });
    if (found == run.workers.end()) continue;
    considered.events.push_back(core::ReplaceWorker{0, *found->rank, replacement.other_host});
  }
  if (auto update = update_of(run, decision)) considered.events.emplace_back(std::move(*update));
}

}  // namespace elastictrain::policy
