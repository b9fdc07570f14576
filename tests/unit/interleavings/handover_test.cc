// What the training thread and the session's own threads hand over to one another, in 1,000 interleavings each: buckets
// to the reducer, communicators from their builder, values of the board, state to the thread that writes it.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/checkpoint/directory.h"
#include "tests/unit/interleavings/scheduler.h"
#include "train/checkpoint/checkpointer.h"
#include "train/session/board.h"
#include "train/session/communicator_builder.h"
#include "train/session/step_buckets.h"

namespace elastictrain::session {
namespace {

using test::run_interleaved;
using test::yield;

void in_all_orders(const std::function<void(std::uint64_t seed)>& body) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    CAPTURE(seed);
    run_interleaved(seed, [&] { body(seed); });
  }
}

protocol::GenerationPlan plan_of(Generation generation) {
  protocol::GenerationPlan plan;
  plan.generation = generation;
  return plan;
}

}  // namespace

TEST_CASE("buckets are reduced in their order, and none after one that failed") {
  in_all_orders([](std::uint64_t seed) {
    const std::vector<std::size_t> all{0, 1, 2};
    const std::size_t failing = seed % 4;  // 3: none
    std::vector<std::size_t> reduced;
    std::vector<Bucket> buckets(3);
    Reducer reducer([&](Bucket& bucket) -> Status {
      yield();
      const auto index = static_cast<std::size_t>(&bucket - buckets.data());
      if (index == failing) return Error{ErrorCode::kPeerLost, "lost"};
      reduced.push_back(index);
      yield();
      return {};
    });
    for (Bucket& bucket : buckets) reducer.submit(bucket);
    CHECK(reducer.wait().ok() == (failing == 3));
    CHECK(reduced == std::vector<std::size_t>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(failing)));
    reduced.clear();
    reducer.submit(buckets[(failing + 1) % 3]);  // the failure was told once
    if (seed % 2 == 0) return;                   // it may end with a bucket that nobody waits for
    CHECK(reducer.wait().ok());
    CHECK(reduced.size() == 1);
  });
}

TEST_CASE("a communicator is handed over once, and a build that was dropped is not") {
  in_all_orders([](std::uint64_t) {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<Generation> done;
    std::set<Generation> cancelled;
    bool is_dropped = false;
    bool was_dropped_before = false;  // the build of 1 began
    CommunicatorBuilder builder(
        [&](const protocol::GenerationPlan& plan, std::uint32_t,
            const comm::CancelToken& cancel) -> Result<comm::BuildResult> {
          was_dropped_before = was_dropped_before || (plan.generation == 1 && is_dropped);
          yield();
          if (plan.generation == 3) return Error{ErrorCode::kPeerLost, "lost"};
          if (cancel.cancelled()) {
            cancelled.insert(plan.generation);
            return Error{ErrorCode::kAborted, "cancelled"};
          }
          yield();
          return comm::BuildResult{};
        },
        [&](Generation generation, const Status& status) {
          const std::lock_guard lock(mutex);
          CHECK(status.ok() == (generation != 3));
          CHECK(done.insert(generation).second);
          CHECK_FALSE((generation == 1 && was_dropped_before));
          changed.notify_all();
        });
    builder.start(plan_of(1), 0);
    std::thread other([&] {
      builder.drop(1);
      is_dropped = true;
    });
    builder.start(plan_of(2), 0);
    builder.start(plan_of(3), 0);
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done.contains(2) && done.contains(3); });
    }
    other.join();
    CHECK(builder.take(2).has_value());
    CHECK_FALSE(builder.take(2).has_value());
    CHECK_FALSE(builder.take(3).has_value());
    CHECK_FALSE((cancelled.contains(1) && done.contains(1)));
  });
}

TEST_CASE(
    "a value of the board is found by who waits for it, whoever comes first, and an end wakes who waits in vain") {
  in_all_orders([](std::uint64_t seed) {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<protocol::WorkerToAgent> sent;
    bool is_over = false;
    Board board([&](const protocol::WorkerToAgent& message) {
      const std::lock_guard lock(mutex);
      sent.push_back(message);
      changed.notify_all();
    });
    std::thread supervisor([&] {
      bool knows = false;
      for (;;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return is_over || !sent.empty(); });
        if (sent.empty()) return;
        const protocol::WorkerToAgent message = sent.front();
        sent.erase(sent.begin());
        lock.unlock();
        protocol::BoardAnswer answer;
        if (const auto* put = std::get_if<protocol::BoardPut>(&message)) {
          knows = true;
          answer.number = put->number;
        } else if (const auto* get = std::get_if<protocol::BoardGet>(&message)) {
          answer.number = get->number;
          answer.found = knows && get->key == "key";
          answer.value = "1";
        }
        board.hear(answer);
      }
    });
    std::thread writer([&] { board.put("key", "1"); });
    std::thread reader([&] { CHECK(board.get("key", std::chrono::hours(1)) == "1"); });
    writer.join();
    reader.join();
    CHECK(test::skipped() == std::chrono::nanoseconds(0));  // each answer wakes who waits for it
    std::thread waits_in_vain([&] {
      if (seed % 2 == 0) return;
      try {
        const auto found = board.get("other", std::chrono::milliseconds(10));
        CHECK_FALSE(found.has_value());
      } catch (const std::exception&) {  // it came after the end
      }
    });
    board.close();
    waits_in_vain.join();
    {
      const std::lock_guard lock(mutex);
      is_over = true;
    }
    changed.notify_all();
    supervisor.join();
  });
}

TEST_CASE("a checkpoint has the state of its step, whatever training does meanwhile") {
  using checkpoint::Checkpointer;
  using checkpoint::test::Directory;
  using checkpoint::test::State;
  in_all_orders([](std::uint64_t seed) {
    Directory directory;
    State state(1);
    const auto at = [](Step step) {
      checkpoint::Snapshot snapshot{.generation = 1, .world_size = 2};
      snapshot.progress.committed_step = step;
      return snapshot;
    };
    Step written = 0;
    {
      Checkpointer checkpointer({.directory = directory.path(), .keep = 3, .run = "test", .host = "here"},
                                state.buffers);
      if (seed % 3 == 0) checkpointer.enter({1, 1}, {}, 0, true);
      for (Step step = 1; step <= 3; ++step) {
        state.fill(static_cast<float>(step));
        checkpointer.begin(at(step));
        yield();
        checkpointer.await_copy();
        state.fill(-1000);  // the next update
      }
      state.fill(3);
      if (seed % 2 == 0) {
        checkpointer.finish(at(3));
        written = 3;
      } else {
        checkpointer.settle();
      }
    }
    State loaded;
    std::vector<std::string> skipped;
    const auto found = checkpoint::Store(directory.path()).load_newest(loaded.buffers, 0, {}, skipped);
    REQUIRE(found);
    const Step step = found->manifest.identity.step;
    CHECK(step >= written);
    CHECK(loaded.is(static_cast<float>(step)));
    CHECK(skipped.empty());
  });
}

}  // namespace elastictrain::session
