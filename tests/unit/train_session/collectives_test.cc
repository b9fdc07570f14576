// A program's own collectives, in a step, between steps and after the last one.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_run.h"
#include "train/session/half_floats.h"
#include "train/session/program_collectives.h"
#include "train/session/session_communicators.h"

namespace elastictrain::test {
namespace {

void require_that(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

// Of one round of all collectives; every value depends on the rank.
struct Round {
  explicit Round(Session& session)
      : ranks(session.world_size()), rank(session.rank()), gathered(2 * ranks), scattered(ranks) {
    for (std::uint32_t i = 0; i < ranks; ++i) scattered[i] = 100 * rank + i;
    sum = rank + 1;
    half_sum = session::to_half(static_cast<float>(rank) + 0.5F);
    bfloat_max = session::to_bfloat(static_cast<float>(rank));
    product = 2;
    min = -1.5 * rank;
    any = rank == ranks - 1 ? 1 : 0;
    from_last = rank;
  }

  void share(Session& session) {
    session.reduce_values(&sum, 1, DataType::kInt64);
    session.reduce_values(&half_sum, 1, DataType::kFloat16);
    session.reduce_values(&bfloat_max, 1, DataType::kBFloat16, Operation::kMax);
    session.reduce_values(&product, 1, DataType::kInt32, Operation::kProduct);
    session.reduce_values(&min, 1, DataType::kFloat64, Operation::kMin);
    session.reduce_values(&any, 1, DataType::kBool);
    session.broadcast_from(&from_last, sizeof from_last, ranks - 1);
    session.broadcast_into(&rank, sizeof rank, ranks - 1, &into);
    const std::uint32_t mine[] = {rank, ranks};
    session.all_gather(mine, sizeof mine, gathered.data());
    session.reduce_scatter(scattered.data(), 1, DataType::kInt64, Operation::kSum, &part);
    session.agree(&ranks, sizeof ranks, &agreed);
    session.agree(&rank, sizeof rank, &disagreed);
    // As long as the ranks, so that only the length differs.
    session.agree(kZeros, rank, &sizes_agreed);
    session.barrier();
  }

  void check() const {
    const std::int64_t n = ranks;
    require_that(sum == n * (n + 1) / 2, "the sum of integers");
    require_that(session::from_half(half_sum) == static_cast<float>(n * n) / 2, "the sum of halves");
    require_that(session::from_bfloat(bfloat_max) == static_cast<float>(n - 1), "the maximum of bfloats");
    require_that(product == 1 << n, "the product");
    require_that(min == -1.5 * static_cast<double>(n - 1), "the minimum");
    require_that(any == 1, "the or");
    require_that(agreed == 1, "that all agree");
    require_that(disagreed == (ranks == 1 ? 1 : 0), "that not all agree");
    require_that(sizes_agreed == (ranks == 1 ? 1 : 0), "that the sizes differ");
    require_that(from_last == ranks - 1, "the broadcast");
    require_that(into == ranks - 1, "the broadcast into other memory");
    require_that(part == 100 * n * (n - 1) / 2 + n * rank, "the part of the sum");
    for (std::uint32_t i = 0; i < ranks; ++i) {
      require_that(gathered[2 * i] == i && gathered[2 * i + 1] == ranks, "what was gathered");
    }
  }

  std::uint32_t ranks;
  std::uint32_t rank;
  std::int64_t sum = 0;
  std::uint16_t half_sum = 0;
  std::uint16_t bfloat_max = 0;
  std::int32_t product = 0;
  double min = 0;
  std::uint8_t any = 0;
  std::uint32_t from_last = 0;
  std::uint32_t into = 0;
  static constexpr std::uint8_t kZeros[8] = {};
  int agreed = 0;
  int disagreed = 1;
  int sizes_agreed = 1;
  std::vector<std::uint32_t> gathered;
  std::vector<std::int64_t> scattered;
  std::int64_t part = 0;
};

// The ranks with which a step's collectives were called. A loss repeats a step's calls as they were made: workers that
// had begun the step before it called with the ranks of then, others with those of now.
struct Callers {
  explicit Callers(Session& session)
      : mine{session.rank(), session.world_size()}, all(std::size_t{2} * session.world_size()) {}
  void share(Session& session) { session.all_gather(mine.data(), sizeof mine, all.data()); }
  bool agree() const {
    for (std::uint32_t i = 0; i < mine[1]; ++i) {
      if (all[2 * i] != i || all[2 * i + 1] != mine[1]) return false;
    }
    return true;
  }
  std::array<std::uint32_t, 2> mine;
  std::vector<std::uint32_t> all;
};

// In every step; checked when it is committed, if its ranks were those of one membership.
template <class Values>
TestWorkerOptions with_values_in_steps() {
  struct InStep {
    explicit InStep(Session& session) : callers(session), values(session) {
      callers.share(session);
      values.share(session);
    }
    Callers callers;
    Values values;
  };
  TestWorkerOptions options;
  const auto step = std::make_shared<std::optional<InStep>>();
  options.in_step = [step](Session& session, std::uint64_t) { step->emplace(session); };
  options.between_steps = [step](Session&, std::uint64_t) {
    if ((*step)->callers.agree()) (*step)->values.check();
  };
  return options;
}

TestWorkerOptions with_collectives_in_steps() {
  return with_values_in_steps<Round>();
}

// Notes how often a loss ended them. `dies_behind`: the step behind which it is killed, when all have begun theirs: one
// that is killed before may take the end of the step's own sums with it.
TestWorkerOptions with_collectives_between_steps(Step dies_behind = 0) {
  TestWorkerOptions options;
  const auto interrupted = std::make_shared<int>(0);
  options.between_steps = [interrupted, dies_behind](Session& session, std::uint64_t step) {
    if (session.outcome() != Outcome::kRunning) return;
    try {
      Round round(session);
      session.reduce_values(&round.sum, 1, DataType::kInt64, Operation::kMax);
      if (step == dies_behind) ::kill(::getpid(), SIGKILL);
      round.sum = session.rank() + 1;
      round.share(session);
      round.check();
    } catch (const SessionInterrupted& error) {
      require_that(std::string_view(error.what()).ends_with(": the generation has changed; call next_batch() again"),
                   "the error says what to do");
      session.note("interrupted", std::to_string(++*interrupted));
    }
  };
  return options;
}

// Round and what it must show in the hook behind each step. `dies`: there, in the one that follows the step in which a
// change was agreed on.
TestWorkerOptions with_collectives_in_hook(bool dies = false) {
  TestWorkerOptions options;
  const auto agreed = std::make_shared<bool>(false);
  options.after_sums = [agreed](Session& session, std::uint64_t) { *agreed = session.boundary().change; };
  options.before_start = [agreed, dies](Session& session) {
    const auto interrupted = std::make_shared<int>(0);
    session.step_hooks({}, [&session, agreed, interrupted, dies](const StepReport&) {
      if (dies && *agreed) ::kill(::getpid(), SIGKILL);
      try {
        std::uint64_t step = session.committed_step();
        session.reduce_values(&step, 1, DataType::kInt64, Operation::kMax);
        require_that(step == session.committed_step(), "all members are behind the same step");
        Round round(session);
        round.share(session);
        round.check();
      } catch (const SessionInterrupted&) {
        session.note("interrupted", std::to_string(++*interrupted));
        throw;
      }
    });
  };
  return options;
}

// Groups of every other rank, and keys that each rank starts in an order of its own, among the step's gradients.
struct Groups {
  explicit Groups(Session& session) : ranks(session.world_size()), rank(session.rank()), gathered(ranks, 77) {
    sum = maximum = static_cast<std::int32_t>(rank) + 1;
    from_second = rank;
    for (std::uint32_t i = 0; i < kKeys; ++i) keyed[i] = 10 * (rank + 1) + i;
    from_last = rank;
  }

  std::uint32_t group() const { return rank % 2; }
  std::vector<std::uint32_t> members() const {
    std::vector<std::uint32_t> list;
    for (std::uint32_t other = group(); other < ranks; other += 2) list.push_back(other);
    return list;
  }

  void share(Session& session) {
    session.reduce_values_in(group(), &sum, 1, DataType::kInt32);
    session.reduce_values_in(group(), &maximum, 1, DataType::kInt32, Operation::kMax);
    size = session.all_gather_in(group(), &rank, sizeof rank, gathered.data());
    session.broadcast_in(group(), &from_second, sizeof from_second, 1);
    for (std::uint32_t i = 0; i < kKeys; ++i) {
      const std::uint32_t key = (i * 3 + rank * 2) % kKeys;  // another order on every rank
      session.reduce_values_async("key" + std::to_string(key), &keyed[key], 1, DataType::kInt64);
      if (i == 1) session.broadcast_async("last", &from_last, sizeof from_last, ranks - 1);
    }
    session.wait_all_reduce();
  }

  void check() const {
    const auto list = members();
    std::int32_t expected = 0;
    for (const auto other : list) expected += static_cast<std::int32_t>(other) + 1;
    require_that(sum == expected, "the sum of a group");
    require_that(maximum == static_cast<std::int32_t>(list.back()) + 1, "the maximum of a group");
    require_that(size == list.size(), "the size of a group");
    require_that(std::equal(list.begin(), list.end(), gathered.begin()), "the values of a group");
    require_that(from_second == (list.size() > 1 ? list[1] : list[0]), "the second one's value");
    require_that(from_last == ranks - 1, "the last one's value");
    for (std::uint32_t i = 0; i < kKeys; ++i) {
      require_that(keyed[i] == 10 * ranks * (ranks + 1) / 2 + std::int64_t{i} * ranks, "the sum of a key");
    }
  }

  static constexpr std::uint32_t kKeys = 5;
  std::uint32_t ranks;
  std::uint32_t rank;
  std::int32_t sum = 0;
  std::int32_t maximum = 0;
  std::uint32_t size = 0;
  std::uint32_t from_second = 0;
  std::uint32_t from_last = 0;
  std::int64_t keyed[kKeys] = {};
  std::vector<std::uint32_t> gathered;
};

TestWorkerOptions with_groups_in_steps() {
  return with_values_in_steps<Groups>();
}

// One more worker joins, then only two of them stay.
void grow_and_shrink(const TestWorkerOptions& options, int start, const std::array<std::size_t, 2>& stay) {
  FakeRun run(options);
  auto workers = run.spawn_ready(start);
  run.change_to(workers);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 10);
  run.change_to({workers[stay[0]], workers[stay[1]]});
  run.wait_step(workers[stay[1]], run[workers[stay[1]]].heartbeat.step + 10);
  run.stop_and_check();
}

TEST_CASE("groups of ranks, and values by key in any order, through a growth and a shrink") {
  grow_and_shrink(with_groups_in_steps(), 3, {3, 1});
}

TEST_CASE("a loss in a step repeats groups and keys too") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating}) {
    for (const bool with_spare : {false, true}) {
      FakeRun run(with_groups_in_steps());
      const auto workers = run.lose_last_of_three(where, with_spare);
      run.wait_step(workers[0], 20);
      run.stop_and_check();
    }
  }
}

TEST_CASE("a key that the first rank starts and another one does not ends that one with an error") {
  TestWorkerOptions options;
  options.in_step = [](Session& session, std::uint64_t) {
    static std::int32_t value = 1;
    const std::string key = session.rank() == 0 ? "mine" : "yours";
    session.reduce_values_async(key, &value, 1, DataType::kInt32);
    session.wait_all_reduce();
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_exit(workers[1]);
  CHECK(run[workers[1]].exit_code == kExitSessionError);
}

TEST_CASE("values under a key that is in use are refused before they are read: their sum may be under way") {
  TestWorkerOptions options;
  options.in_step = [](Session& session, std::uint64_t) {
    static void* const unreadable = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static std::int32_t value = 1;
    session.reduce_values_async("key", &value, 1, DataType::kInt32);
    bool refused = false;
    try {
      session.reduce_values_async("key", unreadable, 1, DataType::kInt32);
    } catch (const SessionError&) {
      refused = true;
    }
    require_that(refused, "a key was started twice");
    session.wait_all_reduce();
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  run.stop_and_check();
}

TEST_CASE("a program's own collectives in each step, through a growth and a shrink") {
  grow_and_shrink(with_collectives_in_steps(), 2, {2, 0});
}

TEST_CASE("a loss in a step repeats its own collectives too") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating}) {
    FakeRun run(with_collectives_in_steps());
    const auto workers = run.lose_last_of_three(where, true);
    run.wait_step(workers[0], 20);
    run.stop_and_check();
  }
}

TEST_CASE("what a worker received before the root was lost in that step is kept by the repetition") {
  TestWorkerOptions options;
  const auto received = std::make_shared<std::array<std::uint32_t, 2>>();
  options.in_step = [received](Session& session, std::uint64_t) {
    (*received)[0] = session.world_size() - 1;
    const std::uint32_t mine = session.rank();
    session.broadcast_into(&mine, sizeof mine, (*received)[0], &(*received)[1]);
  };
  options.between_steps = [received](Session&, std::uint64_t) {
    require_that((*received)[1] == (*received)[0], "the value of the root of then");
  };
  FakeRun run(options);
  const auto workers = run.lose_last_of_three(Moment::kBetweenBuckets, false);
  run.wait_step(workers[0], 20);
  run.stop_and_check();
}

TEST_CASE("collectives between steps") {
  const auto options = with_collectives_between_steps();
  FakeRun run(options);
  const auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.wait_step(workers[0], 20);
  CHECK(run[workers[0]].heartbeat.place != protocol::StepPlace::kStarting);
  run.change_to({workers[0], workers[2]});
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 10);
  run.stop_and_check();
  CHECK(run[workers[0]].notes["interrupted"].empty());
}

TEST_CASE("a loss ends a collective between steps, and training goes on, with a spare or without one") {
  for (const bool with_spare : {false, true}) {
    FakeRun run(with_collectives_between_steps());
    const std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready(),
                                        run.spawn_ready(with_collectives_between_steps(6))};
    run.change_to(workers);
    run.wait_exit(workers[2]);
    run.recover(with_spare ? std::vector<WorkerId>{run.spawn_ready()} : std::vector<WorkerId>{});
    run.wait_step(workers[0], 20);
    CHECK(run[workers[0]].notes["interrupted"] == "1");
    run.stop_and_check();
  }
}

TEST_CASE("collectives in the hook behind a step, while workers come, leave and the run stops") {
  FakeRun run(with_collectives_in_hook());
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[2], run[workers[0]].heartbeat.step + 5);
  run.change_to({workers[1], workers[2]});
  run.wait_step(workers[1], run[workers[1]].heartbeat.step + 5);
  run.wait_exit(workers[0]);
  CHECK(run[workers[0]].exit_code == kExitLeft);
  run.stop_and_check();
  for (const WorkerId worker : workers) CHECK(run[worker].notes["interrupted"].empty());
}

TEST_CASE("a loss ends a collective in the hook behind a step, where nothing changes and where a worker comes") {
  for (const bool changes : {false, true}) {
    FakeRun run(with_collectives_in_hook());
    std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready()};
    workers.push_back(run.spawn_ready(changes ? with_collectives_in_hook(true)
                                              : dying(with_collectives_in_hook(), {Moment::kOutside, 6})));
    run.change_to(workers);
    if (changes) {
      workers.push_back(run.spawn_ready());
      const auto next = run.plan(workers);
      run.prepare(next);
      run.wait_prepared(next);
      run.commit(next);
      run.wait_exit(workers[2]);
      run.set_members(workers);
      run.follow(next);
    } else {
      run.wait_exit(workers[2]);
    }
    const Generation fence = run.abort();
    std::vector<WorkerId> spares;
    if (changes && !run.answer(workers[3], fence).in_loop) spares.push_back(workers[3]);
    run.recover_with(run.recovery_plan(fence, spares));
    run.wait_step(workers[0], run.committed().at(run.generation()).resume_step + 10);
    CHECK(run.members().size() == (changes ? 3 : 2));
    run.stop_and_check();
  }
}

TEST_CASE("a worker that was a step behind at a loss does not begin the collectives that the others gave up") {
  const auto options = with_collectives_between_steps();
  FakeRun run(options);
  std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready(waiting(options, {Moment::kComputing, 5}))};
  run.change_to(workers);
  const auto& late = run[workers[1]].heartbeat;
  run.wait_until([&] { return late.step == 4 && late.place == protocol::StepPlace::kComputing; },
                 "it to compute step 5");
  // It is halted there; the other makes that step alone.
  const Generation fence = run.new_fence();
  run.send_abort(fence, workers);
  run.wait_halted(fence, workers);
  auto alone = run.recovery_plan(fence);
  alone.members.pop_back();
  alone.donors.pop_back();
  run.recover_with(alone);
  run.wait_step(workers[0], 9);
  run.set_members(workers);
  run.recover();
  run.let_go();
  run.wait_step(workers[0], run.committed().at(run.generation()).resume_step + 5);
  run.stop_and_check();
}

TEST_CASE("collectives after the last step, until one of the workers is gone") {
  TestWorkerOptions options{.max_steps = 5};
  options.at_end = [](Session& session) {
    Round round(session);
    round.share(session);
    round.check();
  };
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  options.at_end = [end = options.at_end](Session& session) {
    end(session);
    ::kill(::getpid(), SIGKILL);
  };
  workers.push_back(run.spawn_ready(options));
  run.change_to(workers);
  run.wait_all_exited();
  CHECK(run[workers[0]].exit_code == kExitFinished);
  CHECK(run[workers[1]].exit_code == kExitFinished);
}

TEST_CASE("a collective that a worker's end interrupts after the last step does not wait for a recovery") {
  TestWorkerOptions options{.max_steps = 5};
  options.at_end = [](Session& session) {
    try {
      session.barrier();
    } catch (const SessionInterrupted&) {
      session.note("interrupted", "yes");
    }
  };
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  options.at_end = [](Session&) { ::kill(::getpid(), SIGKILL); };
  workers.push_back(run.spawn_ready(options));
  run.change_to(workers);
  run.wait_all_exited();
  CHECK(run[workers[0]].exit_code == kExitFinished);
  CHECK(run[workers[0]].notes["interrupted"] == "yes");
}

TEST_CASE("each step may be made by another thread, through a change and a loss") {
  for (const bool overlap : {false, true}) {
    TestWorkerOptions options{.overlap = overlap, .changes_threads = true};
    FakeRun run(options);
    std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready()};
    run.change_to(workers);
    workers.push_back(run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 30})));
    run.change_to(workers);
    run.wait_exit(workers[2]);
    run.recover();
    run.wait_step(workers[0], 40);
    run.stop_and_check();
  }
}

TEST_CASE("what a callback throws comes out of the call, and the session has failed") {
  Session session;
  session.set_data({.sample_count = 4});
  session.on_change([](const Change&) { throw std::runtime_error("a broken callback"); });
  CHECK_THROWS_WITH_AS(session.start(), "a broken callback", std::runtime_error);
  CHECK_THROWS_AS(session.next_batch(), SessionError);
}

TEST_CASE("halves keep their value, and floats are rounded to the nearest of them") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(session::from_half(half))) CHECK(session::to_half(session::from_half(half)) == half);
    if (!std::isnan(session::from_bfloat(half))) CHECK(session::to_bfloat(session::from_bfloat(half)) == half);
  }
  CHECK(session::from_half(0x3c00) == 1.0F);
  CHECK(session::from_half(0x0001) == std::ldexp(1.0F, -24));
  CHECK(session::to_half(2049.0F) == session::to_half(2048.0F));  // a tie, to even
  CHECK(session::to_half(2051.0F) == session::to_half(2052.0F));
  CHECK(session::from_half(session::to_half(65519.0F)) == 65504.0F);
  CHECK(std::isinf(session::from_half(session::to_half(65520.0F))));
  CHECK(std::isnan(session::from_half(session::to_half(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(session::from_bfloat(session::to_bfloat(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(session::from_bfloat(session::to_bfloat(257.0F)) == 256.0F);
}

TEST_CASE("alone, every reduction leaves its values") {
  session::SoloCommunicator alone(1);
  std::vector<double> values(300'000, 1.25);
  for (const auto operation : {Operation::kSum, Operation::kMax, Operation::kMin, Operation::kProduct}) {
    REQUIRE(session::reduce_values(alone, std::as_writable_bytes(std::span(values)), DataType::kFloat64, operation));
  }
  CHECK(values == std::vector<double>(300'000, 1.25));
}

}  // namespace
}  // namespace elastictrain::test
