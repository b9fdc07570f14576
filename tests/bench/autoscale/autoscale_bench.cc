// The rows of autoscaling: one JSON object a line.
// Usage: autoscale_bench CURVES savings | settle | regret [SEEDS [wide]] | call | change | ends | rough [SEED]
// (CURVES: tests/data/curves)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "heuristics/policy/policy.h"
#include "heuristics/registry/registry.h"
#include "tests/bench/autoscale/experiments.h"
#include "tests/bench/autoscale/rough.h"
#include "tests/support/changing_job.h"

namespace elastictrain::bench {
namespace {

using namespace heuristics;

void print_savings(const char* name, const char* policy, const Savings& savings) {
  std::printf("{\"set_up\": \"%s\", \"policy\": \"%s\"", name, policy);
  const auto print = [](const char* key, double value) { std::printf(", \"%s\": %.6g", key, value); };
  print("job_time", savings.job_time);
  print("job_time_most", savings.job_time_max);
  print("worker_seconds", savings.worker_seconds);
  print("worker_seconds_most", savings.worker_seconds_max);
  print("settled_s", savings.settled_s);
  print("settled_s_most", savings.settled_s_max);
  print("settled_share", savings.settled_share);
  print("wasted", savings.wasted);
  print("job_s", savings.job_s);
  print("best_job_time", savings.best_job_time);
  print("best_worker_seconds", savings.best_worker_seconds);
  std::printf("}\n");
}

void savings_of(const char* name, const JobModel& model, double target, std::uint32_t by, std::uint32_t to, int seeds) {
  const Loss loss = efficiency_loss(target);
  print_savings(name, "efficiency",
                savings_on(model, *make_policy("efficiency", {{"target", target}}), loss, 4, by, to, seeds));
  print_savings(name, "or", savings_on(model, *make_policy("or", {{"efficiency", target}}), loss, 4, by, to, seeds));
}

int savings() {
  savings_of("cifar-10-like", cifar_like(), 0.1, 4, 60, 5);
  savings_of("imagenet-like", imagenet_like(), 0.5, 4, 64, 5);
  return 0;
}

// The search on the papers' curves, beside that of the published engine.
int settle(const std::string& curves) {
  savings_of("cifar-10-like", cifar_like(), 0.1, 4, 60, 5);
  savings_of("imagenet-like", imagenet_like(), 0.5, 4, 64, 5);
  for (const auto& curve : real_curves(curves)) {
    if (curve.name.find("k80") == std::string::npos) continue;
    RealCurve used = curve;
    used.curve = curve.curve.monotone();
    JobModel model = job_on(used, efficiency_loss(0.5), 4);
    model.min_workers = 4;
    savings_of(curve.name.c_str(), model, 0.5, model.max_workers / 16, model.max_workers, 2);
  }
  return 0;
}

void print_long(const char* name, JobModel model, double times, double target, std::uint32_t by, std::uint32_t to) {
  model.samples_total *= times;
  const auto found =
      long_run_on(model, *make_policy("efficiency", {{"target", target}}), efficiency_loss(target), 4, by, to, 6);
  std::printf("{\"set_up\": \"%s\", \"regret\": %.5f, \"worst_end\": %.4f, \"ends_off\": %d, \"runs\": %d}\n", name,
              found.regret, found.worst_end, found.ends_off, found.runs);
}

// Whether the search ends right, on the papers' curves: jobs of the published length, and long ones.
int ends() {
  print_long("cifar-10-like", cifar_like(), 1, 0.1, 4, 60);
  print_long("imagenet-like-5-epochs", imagenet_like(), 1, 0.5, 4, 64);
  print_long("imagenet-like-90-epochs", imagenet_like(), 18, 0.5, 4, 64);
  return 0;
}

void print_regret(const char* rule, const char* shape, const Regret& regret) {
  std::printf(
      "{\"rule\": \"%s\", \"shape\": \"%s\", \"curve\": \"%s\", \"best\": %u, \"mean\": %.4f, \"worst\": %.4f, "
      "\"worst_start\": %u, \"worst_end\": %u, \"changes_per_hour\": %.3f, \"comparisons_per_hour\": %.3f, "
      "\"settled_share\": %.4f}\n",
      rule, shape, regret.curve.c_str(), regret.best, regret.mean, regret.worst, regret.worst_start, regret.worst_end,
      regret.changes_per_hour, regret.comparisons_per_hour, regret.settled_share);
}

void regret_of_efficiency(const RealCurve& curve, double target, const char* shape, const RegretSetup& setup) {
  const std::string rule = "efficiency-" + std::to_string(target).substr(0, 3);
  const auto policy = make_policy("efficiency", {{"target", target}});
  print_regret(rule.c_str(), shape, regret_on(curve, *policy, efficiency_loss(target), setup));
}

// A second is worth as much as 16 workers at $1 an hour.
void regret_of_cost(const RealCurve& curve, const char* shape, const RegretSetup& setup) {
  const auto policy = make_policy("cost", {{"utility", std::string("linear:16000,3600000")}});
  print_regret("cost", shape, regret_on(curve, *policy, cost_loss(Utility::linear(16000, 3600000), 1), setup));
}

// `wide`: other targets, the curves as they were measured, and noise that lasts from one step to the next as well.
int regret(const std::string& curves, int seeds, bool wide) {
  RegretSetup setup;
  setup.seeds = seeds;
  RegretSetup as_measured = setup;
  as_measured.monotone = false;
  RegretSetup lasting = setup;
  lasting.noise_correlation = 0.8;
  for (const auto& curve : real_curves(curves)) {
    regret_of_efficiency(curve, 0.5, "monotone", setup);
    regret_of_cost(curve, "monotone", setup);
    if (!wide) continue;
    regret_of_efficiency(curve, 0.3, "monotone", setup);
    regret_of_efficiency(curve, 0.7, "monotone", setup);
    regret_of_efficiency(curve, 0.5, "as measured", as_measured);
    if (curve.curve(1) < 1000) regret_of_efficiency(curve, 0.5, "lasting noise", lasting);
  }
  return 0;
}

void print_followed(const test::ChangingJob& job, bool alike) {
  for (const test::Followed& followed : test::follow(job.before, job.after)) {
    std::printf(
        "{\"job\": \"%s\", \"alike\": %s, \"settled_for_s\": %.0f, \"most_changes\": %zu, \"wrong\": %u, \"runs\": "
        "%u}\n",
        job.name, alike ? "true" : "false", followed.settled_for_s, followed.most_changes, followed.wrong,
        followed.runs);
  }
}

int change() {
  for (const auto& job : test::jobs_slower_alike()) print_followed(job, true);
  for (const auto& job : test::jobs_that_scale_differently()) print_followed(job, false);
  return 0;
}

int rough(std::uint64_t seed) {
  for (const Rough& found : rough_curves(seed, 100)) {
    std::printf(
        "{\"kind\": \"%s\", \"policy\": \"%s\", \"runs\": %d, \"off\": %d, \"moved\": %d, \"mean\": %.5f, "
        "\"worst\": %.4f, \"most_changes\": %zu}\n",
        found.kind.c_str(), found.policy.c_str(), found.runs, found.off, found.moved, found.mean_regret,
        found.worst_regret, found.most_changes);
  }
  return 0;
}

ClusterView large_view(std::uint32_t workers) {
  ClusterView view;
  view.now_s = 1000;
  for (std::uint32_t i = 0; i < workers / 8; ++i) {
    HostView host;
    host.name = "host" + std::to_string(i);
    host.slots = 8;
    host.price_per_worker_hour = 1 + i % 3;
    view.hosts.push_back(host);
  }
  JobView job;
  job.name = "large";
  job.workers = job.target = workers;
  job.max_workers = job.reachable = 2 * workers;
  job.samples_done = 1e6;
  job.samples_total = 1e12;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    WorkerView member;
    member.id = member.rank = rank;
    member.host = rank / 8;
    member.share = 32;
    member.steps = 10;
    member.step_s = member.compute_s = 0.1;
    job.members.push_back(member);
  }
  view.jobs.push_back(std::move(job));
  return view;
}

// One call of each policy in the list, in ms: the median and the maximum of many.
int call() {
  for (const auto& spec : policies()) {
    const auto policy = spec.make(check_parameters(spec, {}).parameters);
    const auto state = policy->initial_state();
    Rng rng(1);
    ClusterView view = large_view(10000);
    std::vector<double> took;
    for (int i = 0; i < 200; ++i) {
      Interval interval;
      interval.begin_s = view.now_s;
      interval.end_s = view.now_s += 5;
      interval.workers = view.jobs[0].workers;
      interval.steps = 50;
      interval.samples = 50 * 320000;
      view.jobs[0].intervals = {interval};
      const auto begin = std::chrono::steady_clock::now();
      const Decision decision = policy->decide(view, *state, rng);
      took.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(took.begin(), took.end());
    std::printf("{\"policy\": \"%s\", \"calls\": %zu, \"median_ms\": %.4f, \"most_ms\": %.4f}\n", spec.name.c_str(),
                took.size(), took[took.size() / 2], took.back());
  }
  return 0;
}

int run(int argc, char** argv) {
  const std::string curves = argc > 1 ? argv[1] : "";
  const std::string what = argc > 2 ? argv[2] : "";
  if (what == "savings") return savings();
  if (what == "settle") return settle(curves);
  if (what == "regret") return regret(curves, argc > 3 ? std::stoi(argv[3]) : 5, argc > 4);
  if (what == "call") return call();
  if (what == "change") return change();
  if (what == "ends") return ends();
  if (what == "rough") return rough(argc > 3 ? std::stoull(argv[3]) : 1);
  std::fprintf(stderr,
               "usage: autoscale_bench CURVES savings | settle | regret [SEEDS [wide]] | call | change | ends | rough "
               "[SEED]\n");
  return 2;
}

}  // namespace
}  // namespace elastictrain::bench

int main(int argc, char** argv) {
  try {
    return elastictrain::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "autoscale_bench: %s\n", error.what());
    return 1;
  }
}
