#include "supervisor/recovery_log.h"

#include <doctest/doctest.h>

#include <string>

namespace elastictrain {
namespace {

using std::chrono::seconds;

constexpr Instant kNow{seconds(100)};

std::string said(CheckpointLog& log, const std::string& key, const std::string& value, Instant now = kNow) {
  const auto found = log.take(core::record::Note{WorkerId{1}, key, value}, now);
  return found ? (found->level == core::Tell::Level::kWarning ? "warning: " : "") + found->text : "";
}

TEST_CASE("the newest good checkpoint and its age are known") {
  CheckpointLog log;
  CHECK_FALSE(log.step());
  CHECK(said(log, "checkpoint_written", "400") == "");
  CHECK(log.step() == Step{400});
  CHECK(log.age_s(kNow + seconds(7)) == 7.0);
  log.take(core::record::Note{WorkerId{1}, "checkpoint_written", "500"}, std::nullopt);
  CHECK(log.step() == Step{500});
  CHECK_FALSE(log.age_s(kNow));
}

TEST_CASE("of failures in a row the first and then few are said, and the end of them") {
  CheckpointLog log;
  CHECK(said(log, "checkpoint_failed", "step 5: full") ==
        "warning: no checkpoint was written: step 5: full; there is none yet");
  int more = 0;
  for (int i = 2; i <= 100; ++i) more += said(log, "checkpoint_failed", "step 6: full").empty() ? 0 : 1;
  CHECK(more == 2);
  CHECK(log.failures() == 100);
  CHECK(log.reason() == "step 6: full");
  CHECK(said(log, "checkpoint_written", "7") == "checkpoints are written again: step 7, after 100 failures");
  CHECK(log.failures() == 0);
  CHECK(said(log, "checkpoint_failed", "step 8: full") ==
        "warning: no checkpoint was written: step 8: full; the newest good one is that of step 7");
}

TEST_CASE("what a start finds is said") {
  CheckpointLog log;
  CHECK(said(log, "checkpoint_skipped", "a is damaged") == "warning: checkpoint skipped: a is damaged");
  CHECK(said(log, "checkpoint_unused", "starts anew") == "starts anew");
  CHECK(said(log, "checkpoint_resumed", "40 in /c (the newest)") ==
        "continues from the checkpoint of step 40 in /c (the newest)");
  CHECK(log.step() == Step{40});
  CHECK_FALSE(log.age_s(kNow));
  CHECK(said(log, "accuracy", "0.9") == "");
  CHECK(said(log, "checkpoint_written", "not a step") == "");
}

}  // namespace
}  // namespace elastictrain
