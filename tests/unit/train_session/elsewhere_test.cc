// Sums that a program makes elsewhere: each worker has followers, which sum their parts on planes of their own, and an
// ordinary bucket of the same numbers, whose sum must be the same bit for bit.
#include <doctest/doctest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "elastictrain/plane.hpp"
#include "fake_run.h"

namespace elastictrain::test {
namespace {

// A process that a worker leads, as a thread: it does what it is told in order, and skips the rest after a failure.
class Follower {
 public:
  Follower() : thread_([this] { run(); }) {}
  ~Follower() {
    tell(nullptr);
    thread_.join();
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  Plane& plane() { return plane_; }

  void tell(std::function<void()> order) {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
    changed_.notify_all();
  }

  // Until all orders are carried out. `gives_up` is asked meanwhile; the plane of this generation ends then.
  std::string finish(std::uint64_t generation, const std::function<bool()>& gives_up) {
    std::unique_lock lock(mutex_);
    const auto is_done = [this] { return orders_.empty() && !is_busy_; };
    while (!changed_.wait_for(lock, std::chrono::milliseconds(1), is_done)) {
      if (!gives_up()) continue;
      is_given_up_ = true;
      plane_.abort(generation);
      changed_.wait(lock, is_done);
      if (failure_.empty()) failure_ = "given up";
    }
    is_given_up_ = false;
    return std::exchange(failure_, "");
  }

  // An order that is never carried out.
  void get_stuck() const {
    while (!is_given_up_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw SessionError("stuck");
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !orders_.empty(); });
      const auto order = std::move(orders_.front());
      orders_.pop_front();
      if (!order) return;
      is_busy_ = true;
      const bool skips = !failure_.empty();
      lock.unlock();
      std::string why = skips ? "" : carry_out(order);
      lock.lock();
      is_busy_ = false;
      if (!why.empty()) failure_ = std::move(why);
      changed_.notify_all();
    }
  }
  static std::string carry_out(const std::function<void()>& order) {
    try {
      order();
    } catch (const SessionError& error) {
      return error.what();
    }
    return {};
  }

  Plane plane_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> orders_;
  bool is_busy_ = false;
  std::atomic<bool> is_given_up_ = false;
  std::string failure_;
  std::thread thread_;
};

constexpr std::size_t kFollowers = 2;
constexpr std::size_t kBuckets = 3;
constexpr std::size_t kParts = kFollowers * kBuckets;
constexpr std::size_t kCounts[kBuckets] = {40'003, 7, 20'000};  // the last one in bfloat16

std::uint16_t bfloat_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

// What goes wrong, where a test wants it.
struct Faults {
  std::uint64_t step = 0;  // of the run; 0: nothing
  std::uint64_t worker = 0;
  std::size_t bucket = 0;  // behind whose start
  enum class Kind { kDies, kStartFails, kFinishFails, kPlaneFails, kIsStuck } kind = Kind::kDies;
};

// A file that is there once any worker has started a sum of step 5.
std::string started_path(const std::string& directory) {
  return directory + "/started";
}

// What one worker's processes hold, and the same numbers once more, which its session sums.
class Replica {
 public:
  Replica(const Faults& faults, std::uint64_t worker) : faults_(faults), worker_(worker) {}

  void compute(const Batch& batch) {
    batch_ = batch.step;
    starts_ = 0;
    const bool is_empty = batch.local_samples == 0;
    for (std::size_t part = 0; part < kParts; ++part) {
      wide_[part].resize(count_of(part));
      for (std::size_t i = 0; i < wide_[part].size(); ++i) {
        double sum = 0;
        for (const auto sample : batch.samples) sum += sample_gradient(sample, i + 100'000 * part);
        wide_[part][i] = is_empty ? std::nanf("") : static_cast<float>(sum / static_cast<double>(batch.local_samples));
      }
      narrow_[part].clear();
      if (part % kBuckets == 2) {
        for (const float value : wide_[part]) narrow_[part].push_back(bfloat_of(value));
      }
      wide_here_[part] = wide_[part];
      narrow_here_[part] = narrow_[part];
    }
  }

  // The two kinds in turn.
  void reduce(Session& session) {
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      reduce_elsewhere(session, bucket);
      for (std::size_t part = bucket; part < kParts; part += kBuckets) reduce_here(session, part);
    }
  }
  void reduce_elsewhere(Session& session) {
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) reduce_elsewhere(session, bucket);
  }
  void reduce_here(Session& session) {
    for (std::size_t part = 0; part < kParts; ++part) reduce_here(session, part);
  }

  // Behind the step's sums; a step that is given up has zeros in the session's buckets.
  void compare() {
    if (std::ranges::all_of(wide_here_[0], [](float value) { return value == 0; })) return;
    for (std::size_t part = 0; part < kParts; ++part) {
      const bool is_narrow = !narrow_[part].empty();
      demand(is_narrow || std::memcmp(wide_[part].data(), wide_here_[part].data(), 4 * wide_[part].size()) == 0,
             "a sum elsewhere is not that of the session");
      demand(narrow_[part] == narrow_here_[part], "a sum elsewhere in 16 bits is not that of the session");
    }
    ++compared_;
  }

  int compared() const { return compared_; }
  std::size_t starts() const { return starts_; }  // in this step

 private:
  static std::size_t count_of(std::size_t part) { return kCounts[part % kBuckets]; }

  void reduce_elsewhere(Session& session, std::size_t bucket) {
    session.all_reduce_elsewhere_async([this, bucket](const SumElsewhere& sum) { return start(bucket, sum); },
                                       [this](SumsElsewhere& sums) { return finish(sums); });
  }
  void reduce_here(Session& session, std::size_t part) {
    if (narrow_[part].empty()) return session.all_reduce_async(wide_here_[part].data(), wide_here_[part].size());
    session.all_reduce_async(narrow_here_[part].data(), narrow_here_[part].size(), DataType::kBFloat16);
  }

  bool is_now(std::size_t bucket, Faults::Kind kind) const {
    return faults_.step == batch_ && faults_.worker == worker_ && faults_.bucket == bucket && faults_.kind == kind;
  }

  std::string start(std::size_t bucket, const SumElsewhere& sum) {
    demand(sum.bucket == bucket, "the place of a bucket is not that of its call");
    ++starts_;
    if (batch_ == 5) std::ofstream(started_path(std::getenv("TEST_WORKER_DIRECTORY")));
    if (sum.generation != generation_) {
      if (auto why = build(sum); !why.empty()) return why;
    }
    if (is_now(bucket, Faults::Kind::kPlaneFails)) {
      faults_.step = 0;
      followers_[0].tell([this] { followers_[0].plane().abort(generation_); });
    }
    if (is_now(bucket, Faults::Kind::kIsStuck)) {
      faults_.step = 0;
      followers_[0].tell([this] { followers_[0].get_stuck(); });
    }
    for (std::size_t f = 0; f < kFollowers; ++f) {
      const std::size_t part = f * kBuckets + bucket;
      const bool is_narrow = !narrow_[part].empty();
      const PlaneSum on_plane{
          .data = is_narrow ? static_cast<void*>(narrow_[part].data()) : static_cast<void*>(wide_[part].data()),
          .count = count_of(part),
          .type = is_narrow ? DataType::kBFloat16 : DataType::kFloat32,
          .step = sum.step,
          .bucket = sum.bucket,
          .scale = sum.scale,
          .has_input = sum.has_input,
          .keeps = sum.keeps,
          .is_kept = sum.is_kept,
          .wants_norms = sum.wants_norms};
      followers_[f].tell([this, f, on_plane] {
        const auto norms = followers_[f].plane().all_reduce(on_plane);
        norms_[f].local_square_sum += norms.local_square_sum;
        norms_[f].reduced_square_sum += norms.reduced_square_sum;
      });
    }
    return after_start(bucket);
  }

  std::string after_start(std::size_t bucket) {
    if (is_now(bucket, Faults::Kind::kDies)) {
      for (auto& follower : followers_) (void)follower.finish(generation_, [] { return false; });
      ::kill(::getpid(), SIGKILL);
    }
    if (!is_now(bucket, Faults::Kind::kStartFails)) return {};
    faults_.step = 0;
    return "the follower's host is gone";
  }

  std::string build(const SumElsewhere& sum) {
    generation_ = sum.generation;
    for (std::size_t f = 0; f < kFollowers; ++f) {
      auto world = std::make_shared<PlaneWorld>(PlaneWorld{.generation = sum.generation,
                                                           .token = sum.token,
                                                           .encryption = sum.encryption,
                                                           .index = static_cast<std::uint32_t>(f),
                                                           .rank = sum.rank});
      auto all = std::make_shared<std::vector<std::byte>>(sum.world_size * Plane::kEndpointBytes);
      if (auto why = sum.all_gather(followers_[f].plane().endpoint(), *all); !why.empty()) return why;
      followers_[f].tell([this, f, world, all] {
        world->endpoints = *all;
        followers_[f].plane().build(*world);
      });
    }
    return {};
  }

  std::string finish(SumsElsewhere& sums) {
    if (!sums.failed && is_now(0, Faults::Kind::kFinishFails)) {
      faults_.step = 0;
      for (auto& follower : followers_) (void)follower.finish(generation_, [] { return true; });
      return "a follower has failed";
    }
    std::string why;
    for (std::size_t f = 0; f < kFollowers; ++f) {
      auto own = followers_[f].finish(generation_, sums.is_broken);
      if (why.empty()) why = std::move(own);
      const auto norms = std::exchange(norms_[f], {});
      sums.local_square_sum += norms.local_square_sum;
      sums.reduced_square_sum += norms.reduced_square_sum;
    }
    return why;
  }

  Faults faults_;
  const std::uint64_t worker_;
  std::uint64_t batch_ = 0;
  std::uint64_t generation_ = ~std::uint64_t{0};
  int compared_ = 0;
  std::size_t starts_ = 0;
  std::vector<float> wide_[kParts];
  std::vector<float> wide_here_[kParts];
  std::vector<std::uint16_t> narrow_[kParts];
  std::vector<std::uint16_t> narrow_here_[kParts];
  PlaneNorms norms_[kFollowers];
  Follower followers_[kFollowers];
};

using SharedReplica = std::shared_ptr<std::unique_ptr<Replica>>;

// The planes are made where the session is: behind the fork.
TestWorkerOptions with_replica(const Faults& faults = {},
                               const SharedReplica& replica = std::make_shared<std::unique_ptr<Replica>>()) {
  TestWorkerOptions options;
  options.before_start = [=](Session& session) { *replica = std::make_unique<Replica>(faults, session.worker_id()); };
  options.on_batch = [=](const Batch& batch) { (*replica)->compute(batch); };
  options.in_step = [=](Session& session, std::uint64_t) { (*replica)->reduce(session); };
  options.after_sums = [=](Session& session, std::uint64_t) {
    (*replica)->compare();
    session.note("compared", std::to_string((*replica)->compared()));
  };
  return options;
}

int noted(FakeRun& run, const std::string& what) {
  int most = 0;
  for (const auto& [id, worker] : run.workers()) {
    if (const auto found = worker.notes.find(what); found != worker.notes.end()) most = std::stoi(found->second);
  }
  return most;
}

void train_on_and_stop(FakeRun& run) {
  const WorkerId first = run.members().front();
  run.wait_step(first, run[first].heartbeat.step + 6);
  run.stop_and_check();
  CHECK(noted(run, "compared") > 5);
}

TEST_CASE("sums elsewhere are those of ordinary buckets, with unequal shares, joiners, and members that leave") {
  for (const char* const transport : {"auto", "tcp"}) {
    CAPTURE(transport);
    FakeRun run(with_replica());
    run.set_environment("ELASTICTRAIN_TRANSPORT", transport);
    auto workers = run.spawn_ready(2);
    run.change_to(workers, {3, 17});
    run.wait_step(workers[0], 5);
    workers.push_back(run.spawn_ready());
    run.change_to(workers, {8, 2, 5});
    run.wait_step(workers[2], run[workers[0]].heartbeat.step + 5);
    run.change_to({workers[1], workers[2]});
    run.wait_step(workers[2], run[workers[2]].heartbeat.step + 5);
    run.change_to({workers[2]});
    run.wait_step(workers[2], run[workers[2]].heartbeat.step + 20);
    run.change_to({workers[2], run.spawn_ready()});
    train_on_and_stop(run);
  }
}

TEST_CASE("a worker is lost between the start of sums elsewhere and their end: the others repeat from what was kept") {
  for (const std::size_t bucket : {0, 1, 2}) {
    for (const int workers : {2, 3}) {
      CAPTURE(bucket);
      CAPTURE(workers);
      const auto last = static_cast<std::uint64_t>(workers);
      FakeRun run(with_replica({.step = 5, .worker = last, .bucket = bucket}));
      const auto all = run.spawn_ready(workers);
      run.change_to(all);
      run.wait_exit(all.back());
      run.recover();
      train_on_and_stop(run);
    }
  }
}

// The member whose sums have failed reports it, and all repeat the step.
void fail_and_recover(const Faults& faults) {
  FakeRun run(with_replica(faults));
  const auto workers = run.spawn_ready(3);
  run.change_to(workers, {4, 8, 6});
  // Nobody waits for the sums of a worker that has given up.
  for (const auto worker : workers) {
    run.wait_until([&] { return !run[worker].halts.empty(); }, to_string(worker) + " to report");
    CHECK(run[worker].halts.front().has_gradients);
  }
  run.recover();
  CHECK(run.members().size() == 3);
  // The others may have all sums of the step, where only its end has failed.
  const Step resumed = run.committed().at(run.generation()).resume_step;
  CHECK((resumed == 4 || (resumed == 5 && faults.kind == Faults::Kind::kFinishFails)));
  train_on_and_stop(run);
}

TEST_CASE("what fails elsewhere is a failure of the step, and all repeat it together") {
  using Kind = Faults::Kind;
  for (const auto kind : {Kind::kStartFails, Kind::kFinishFails, Kind::kPlaneFails}) {
    CAPTURE(static_cast<int>(kind));
    for (const std::size_t bucket : {0, 2}) {
      if (kind == Kind::kFinishFails && bucket != 0) continue;
      CAPTURE(bucket);
      fail_and_recover({.step = 5, .worker = 2, .bucket = bucket, .kind = kind});
    }
  }
}

bool is_reducing(FakeRun& run, WorkerId worker) {
  const auto& record = run[worker];
  return record.heartbeat.step >= 4 && record.heartbeat.place == protocol::StepPlace::kReducing && record.still >= 10;
}

TEST_CASE("a sum elsewhere that no worker can end ends with the generation, and all repeat it") {
  FakeRun run(with_replica({.step = 5, .worker = 2, .bucket = 2, .kind = Faults::Kind::kIsStuck}));
  const auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.wait_until([&] { return std::ranges::all_of(workers, [&](auto worker) { return is_reducing(run, worker); }); },
                 "all to wait");
  for (const auto worker : workers) CHECK(run[worker].halts.empty());
  run.recover();
  CHECK(run.members().size() == 3);
  CHECK(run.committed().at(run.generation()).resume_step == 4);
  train_on_and_stop(run);
}

TEST_CASE("no sum elsewhere starts before all workers are in the step's sums") {
  const auto options = with_replica();
  FakeRun run(options);
  const auto late = run.spawn_ready(waiting(options, {Moment::kComputing, 5}));
  const auto early = run.spawn_ready(options);
  run.change_to({late, early});
  run.wait_until([&] { return is_reducing(run, early); }, "the other one to wait");
  const auto path = started_path(run.directory());
  CHECK(::access(path.c_str(), F_OK) != 0);
  run.let_go();
  run.wait_step(early, 5);
  CHECK(::access(path.c_str(), F_OK) == 0);
  train_on_and_stop(run);
}

TEST_CASE("a worker that is behind gives up a step with sums elsewhere, and joins again") {
  const auto replica = std::make_shared<std::unique_ptr<Replica>>();
  auto options = with_replica({.step = 5, .worker = 3, .bucket = 1}, replica);
  options.between_steps = [replica](Session& session, std::uint64_t step) {
    if (session.worker_id() != 2) return;
    const std::size_t starts = (*replica)->starts();
    demand(starts == kBuckets || (step == 5 && starts < kBuckets), "a step that is given up is repeated, or another");
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.wait_exit(workers[2]);
  // The second worker stays halted in its step 5, while the first one goes on alone.
  auto alone = run.recovery_plan(run.abort());
  alone.members.pop_back();
  alone.donors.pop_back();
  run.recover_with(alone);
  run.wait_step(workers[0], 9);
  run.set_members({workers[0], workers[1]});
  run.recover();
  REQUIRE(run.members() == std::vector<WorkerId>{workers[0], workers[1]});
  CHECK(run.committed().at(run.generation()).members[1].joiner);
  run.wait_step(workers[1], run.committed().at(run.generation()).resume_step + 5);
  train_on_and_stop(run);
}

// The norm of the step before the last one of ten, in which `reduce` is all that is summed.
double norm_of(const std::function<void(Replica&, Session&)>& reduce) {
  const auto replica = std::make_shared<std::unique_ptr<Replica>>();
  auto options = with_replica({}, replica);
  options.reduce = false;
  options.max_steps = 10;
  options.in_step = [=](Session& session, std::uint64_t) { reduce(**replica, session); };
  options.after_sums = [](Session& session, std::uint64_t step) {
    session.wait_all_reduce();
    if (step == 10) session.note("norm", std::to_string(session.last_step().gradient_norm));
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers, {3, 8});
  run.wait_all_exited();
  return std::stod(run[workers[0]].notes.at("norm"));
}

TEST_CASE("a step of sums elsewhere alone has the norm that the same sums of the session have") {
  const double elsewhere = norm_of([](Replica& replica, Session& session) { replica.reduce_elsewhere(session); });
  const double here = norm_of([](Replica& replica, Session& session) { replica.reduce_here(session); });
  CHECK(here > 0.1);
  CHECK(elsewhere == doctest::Approx(here));
}

struct CountedCalls {
  int starts = 0;
  int finishes = 0;
  SumElsewhere last;

  void add_to(Session& session, std::string why = "") {
    session.all_reduce_elsewhere_async(
        [this, why](const SumElsewhere& sum) {
          ++starts;
          last = sum;
          return why;
        },
        [this](SumsElsewhere& sums) {
          ++finishes;
          sums.local_square_sum = sums.reduced_square_sum = 9;
          return std::string();
        });
  }
};

TEST_CASE("alone a sum elsewhere is called only where it is more than the gradient itself") {
  Session session;
  session.set_data({.sample_count = 1000, .batch = 4});
  CountedCalls calls;
  CHECK_THROWS_AS(calls.add_to(session), SessionError);
  REQUIRE(session.start());
  for (int step = 1; step <= 18; ++step) {
    session.next_batch();
    calls.add_to(session);
    calls.add_to(session);
    session.wait_all_reduce();
    CHECK(calls.starts == (step < 17 ? 2 : 4));  // for the norms
    CHECK(calls.finishes == (step < 17 ? 1 : 2));
    session.commit_step();
  }
  CHECK(calls.last.world_size == 1);
  CHECK(calls.last.scale == 1);
  CHECK(calls.last.has_input);
  CHECK_FALSE(calls.last.keeps);
  CHECK(calls.last.bucket == 1);
  CHECK(calls.last.wants_norms);
  CHECK(session.last_step().gradient_norm == doctest::Approx(3));
}

TEST_CASE("sums elsewhere are refused where they would not be right") {
  Session session;
  session.set_data({.sample_count = 1000, .batch = 4});
  CountedCalls calls;
  REQUIRE(session.start());
  session.next_batch();
  CHECK_THROWS_AS(session.all_reduce_elsewhere_async({}, {}), SessionError);
  session.measure_gradient_variance(2);
  CHECK_THROWS_AS(calls.add_to(session), SessionError);
  session.measure_gradient_variance(0);
  calls.add_to(session, "nothing works");
  CHECK_THROWS_WITH_AS(session.wait_all_reduce(), doctest::Contains("nothing works"), SessionError);
  CHECK(calls.finishes == 1);
}

TEST_CASE("a function of the program that throws fails its sum, on whichever thread it runs") {
  Session session;
  session.set_data({.sample_count = 1000, .batch = 4});
  REQUIRE(session.start());
  session.next_batch();
  bool failed = false;
  session.all_reduce_elsewhere_async(
      [](const SumElsewhere&) -> std::string { throw std::runtime_error("no such plane"); },
      [&failed](SumsElsewhere& sums) {
        failed = sums.failed && sums.is_broken();
        return std::string();
      });
  CHECK_THROWS_WITH_AS(session.wait_all_reduce(), doctest::Contains("no such plane"), SessionError);
  CHECK(failed);
}

TEST_CASE("sums elsewhere are refused while workers average models") {
  TestWorkerOptions options;
  options.in_step = [](Session& session, std::uint64_t) {
    CountedCalls calls;
    try {
      calls.add_to(session);
    } catch (const SessionError& error) {
      session.note("refused", error.what());
    }
  };
  FakeRun run(options);
  run.synchronize_by(protocol::Synchronization::kAveraging);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  CHECK(run[workers[0]].notes.at("refused").find("average their models") != std::string::npos);
  run.stop();
  run.wait_all_exited();
}

}  // namespace
}  // namespace elastictrain::test
