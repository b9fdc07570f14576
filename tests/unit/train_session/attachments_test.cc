// What a step's commit brings, which all workers know before it, and what a program attaches to a checkpoint.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_run.h"
#include "tests/unit/checkpoint/directory.h"
#include "train/session/auxiliary_state.h"

namespace elastictrain::test {
namespace {

using checkpoint::test::Directory;

std::string text_of(const std::optional<std::span<const std::byte>>& value) {
  return value ? std::string(reinterpret_cast<const char*>(value->data()), value->size()) : "none";
}

std::string text_of(const Boundary& brings) {
  return std::string(brings.checkpoint ? " checkpoint" : "") + (brings.change ? " change" : "") +
         (brings.stop ? " stop" : "") + (brings.end ? " end" : "");
}

// Each worker writes what each step brings to a file of its own, and attaches the step's number to each checkpoint.
TestWorkerOptions attaching(const std::string& directory) {
  TestWorkerOptions options;
  options.after_sums = [directory](Session& session, std::uint64_t step) {
    const auto brings = session.boundary();
    std::ofstream(directory + "/brings-" + std::to_string(session.worker_id()), std::ios::app)
        << step << ":" << text_of(brings) << "\n";
    const auto record = "step " + std::to_string(step);
    if (brings.checkpoint) session.attach("record", record.data(), record.size());
  };
  options.after_start = [](Session& session) { session.note("found", text_of(session.attachment("record"))); };
  return options;
}

std::map<Step, std::string> brought(const std::string& directory, WorkerId worker) {
  std::map<Step, std::string> steps;
  std::ifstream file(directory + "/brings-" + std::to_string(worker.value));
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    steps[std::stoull(line.substr(0, colon))] = line.substr(colon + 1);
  }
  return steps;
}

std::set<Step> steps_with(const std::map<Step, std::string>& steps, const std::string& what) {
  std::set<Step> found;
  for (const auto& [step, text] : steps) {
    if (text.find(what) != std::string::npos) found.insert(step);
  }
  return found;
}

void check_equal(const std::map<Step, std::string>& one, const std::map<Step, std::string>& other) {
  for (const auto& [step, text] : one) {
    CAPTURE(step);
    if (other.contains(step)) CHECK(other.at(step) == text);
  }
}

void resume_from(FakeRun& run, const Directory& directory) {
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_RESUME", "1");
}

void stop(FakeRun& run) {
  run.stop();
  run.wait_all_exited();
}

TEST_CASE("all workers know before a commit what it brings: checkpoints, a change, the stop") {
  Directory directory;
  FakeRun run(attaching(directory.path()));
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "4");
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 9);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  const Step first = run[workers[2]].active.at(2).first_step;
  run.wait_step(workers[2], first + 9);
  run.stop_and_check();
  const auto seen = brought(directory.path(), workers[0]);
  check_equal(seen, brought(directory.path(), workers[1]));
  check_equal(brought(directory.path(), workers[2]), seen);
  CHECK(brought(directory.path(), workers[2]).size() > 8);
  const Step last = run[workers[0]].left->last_step;
  CHECK(steps_with(seen, "change") == std::set<Step>{first - 1});
  CHECK(steps_with(seen, "stop") == std::set<Step>{last});
  auto checkpoints = steps_with(seen, "checkpoint");
  CHECK(checkpoints.contains(last));
  checkpoints.erase(last);
  for (const Step step : checkpoints) CHECK(step % 4 == 0);
  CHECK(checkpoints.size() == (last - 1) / 4);
}

TEST_CASE(
    "a checkpoint has what was attached to its step, and a run that resumes has it at any size, its joiners not") {
  Directory directory;
  Step stopped_at = 0;
  const auto options = attaching(directory.path());
  {
    FakeRun run(options);
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "5");
    const auto workers = run.spawn_ready(2);
    run.change_to(workers);
    run.wait_step(workers[0], 12);
    stop(run);
    stopped_at = run[workers[0]].left->last_step;
    CHECK_FALSE(run[workers[0]].notes.contains("checkpoint_unattached"));
  }
  const auto expected = "step " + std::to_string(stopped_at);
  FakeRun run(options);
  resume_from(run, directory);
  auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.wait_step(workers[0], stopped_at + 3);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_until([&] { return run[workers[0]].notes.contains("found"); }, "the note");
  CHECK(run[workers[0]].notes["found"] == expected);
  run.wait_step(workers[3], stopped_at + 6);
  stop(run);
}

TEST_CASE("each worker of a run that resumes has the attachments, and says what it has not") {
  Directory directory;
  {
    FakeRun run(attaching(directory.path()));
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    const auto worker = run.spawn_ready();
    run.change_to({worker});
    run.wait_step(worker, 3);
    stop(run);
  }
  TestWorkerOptions options;
  options.after_start = [](Session& session) {
    const auto found = text_of(session.attachment("record"));
    if (found != "step " + std::to_string(session.committed_step())) throw std::runtime_error("found " + found);
    if (session.attachment("other")) throw std::runtime_error("found what nobody has attached");
  };
  FakeRun run(options);
  resume_from(run, directory);
  const auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.wait_step(workers[2], 6);
  stop(run);
  for (const auto worker : workers) CHECK(run[worker].exit_code == kExitStopped);
}

TEST_CASE("a checkpoint of a step to which nothing was attached has nothing, and the journal says so") {
  Directory directory;
  TestWorkerOptions options;
  options.after_sums = [](Session& session, std::uint64_t step) {
    if (step <= 4) session.attach("record", "early", 5);
  };
  {
    FakeRun run(options);
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    const auto worker = run.spawn_ready();
    run.change_to({worker});
    run.wait_step(worker, 8);
    stop(run);
    CHECK(run[worker].notes["checkpoint_unattached"].find("nothing was attached") != std::string::npos);
  }
  FakeRun run(attaching(directory.path()));
  resume_from(run, directory);
  const auto worker = run.spawn_ready();
  run.change_to({worker});
  run.wait_until([&] { return run[worker].notes.contains("found"); }, "the note");
  CHECK(run[worker].notes["found"] == "none");
  stop(run);
}

TEST_CASE("at the end of the data all know the last step, and its checkpoint has its attachment") {
  Directory directory;
  auto options = attaching(directory.path());
  options.sample_count = 100;
  options.epochs = 2;
  FakeRun run(options);
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_all_exited();
  const Step last = run[workers[0]].finished->last_step;
  for (const auto worker : workers) {
    const auto seen = brought(directory.path(), worker);
    CHECK(steps_with(seen, "end") == std::set<Step>{last});
    CHECK(steps_with(seen, "checkpoint") == std::set<Step>{last});
  }
  const auto manifest = directory.read("step-" + std::to_string(last) + ".gen-1.json");
  CHECK(manifest.find("\"attachments\"") != std::string::npos);
}

TEST_CASE("workers that repeat a step after a loss agree on what it brings") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating, Moment::kOutside}) {
    Directory directory;
    FakeRun run(attaching(directory.path()));
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "2");
    const auto workers = run.lose_last_of_three(where, true);
    run.wait_step(workers[0], 15);
    run.stop_and_check();
    check_equal(brought(directory.path(), workers[0]), brought(directory.path(), workers[1]));
  }
}

TEST_CASE("attachments belong to one step, and are bounded") {
  session::Attachments attachments;
  const std::byte one{1}, two{2};
  CHECK_FALSE(attachments.is_used());
  attachments.attach("a", {&one, 1});
  attachments.attach("a", {&two, 1});
  CHECK(attachments.is_used());
  CHECK(attachments.of(1).empty());
  attachments.commit(1);
  REQUIRE(attachments.of(1).size() == 1);
  CHECK(attachments.of(1).front().bytes.front() == two);
  CHECK(attachments.of(2).empty());
  attachments.attach("a", {&one, 1});
  attachments.discard();
  attachments.commit(2);
  CHECK(attachments.of(2).empty());
  CHECK(attachments.of(1).empty());
  const std::vector<std::byte> large(session::Attachments::kMaxBytes);
  CHECK_THROWS_AS(attachments.attach("b", large), SessionError);
  attachments.attach("b", std::span(large).first(large.size() - 1));
  CHECK_THROWS_AS(attachments.attach("c", {}), SessionError);
}

TEST_CASE("alone a program attaches as well, and a largest attachment survives its checkpoint") {
  Directory directory;
  ::setenv("ELASTICTRAIN_CHECKPOINT_DIR", directory.path().c_str(), 1);
  ::setenv("ELASTICTRAIN_RESUME", "1", 1);
  std::vector<std::byte> large(session::Attachments::kMaxBytes - 6, std::byte{7});
  for (const bool resumes : {false, true}) {
    Session session;
    float weights = 1;
    session.share_model("weights", &weights, 1);
    session.set_data({.sample_count = 8, .batch = 4, .max_steps = resumes ? 3U : 1U});
    REQUIRE(session.start());
    CHECK(session.attachment("record").has_value() == resumes);
    if (resumes) CHECK(session.attachment("record")->size() == large.size());
    CHECK_THROWS_AS(session.attach("record", "x", 1), SessionError);
    CHECK_THROWS_AS(session.boundary(), SessionError);
    while (session.next_batch()) {
      session.all_reduce(&weights, 1);
      if (session.boundary().end) session.attach("record", large.data(), large.size());
      session.commit_step();
    }
  }
  ::unsetenv("ELASTICTRAIN_CHECKPOINT_DIR");
  ::unsetenv("ELASTICTRAIN_RESUME");
}

}  // namespace
}  // namespace elastictrain::test
