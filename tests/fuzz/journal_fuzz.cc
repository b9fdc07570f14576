// A journal with any content: `elastictrain events` prints one line of text for each line, without control bytes that
// would move a terminal's cursor; a supervisor that takes the run over reads it without a failure.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/output/event_text.h"
#include "supervisor/journal_history.h"
#include "tests/fuzz/check.h"

namespace {

using namespace elastictrain;

constexpr Generation kFarBelowTheEnd = Generation{1} << 62;

void look(WorkerId worker, const core::Resumed& run) {
  fuzz::check(worker.value <= run.last_worker, "a worker beyond the highest id");
  fuzz::check(run.last_worker < UINT32_MAX && run.last_agent < UINT32_MAX, "no room for the next id");
}

void look(const core::Resumed& run) {
  fuzz::check(run.generation <= run.issued, "a number beyond the highest that was used");
  fuzz::check(run.members.size() == run.shares.size(), "members without shares");
  for (std::size_t i = 1; i < run.lineage.size(); ++i) {
    fuzz::check(run.lineage[i - 1].generation < run.lineage[i].generation, "a lineage out of order");
  }
  fuzz::check(run.lineage.empty() || run.lineage.back().generation <= run.issued,
              "a lineage beyond the highest number");
  fuzz::check(run.issued < kFarBelowTheEnd, "no room for the next generation");
  for (const auto& agent : run.agents)
    fuzz::check(agent.agent.value <= run.last_agent, "an agent beyond the highest id");
  for (const auto& worker : run.workers) look(worker.worker, run);
  for (const auto& ids : {run.members, run.unsettled_members, run.finished}) {
    for (const WorkerId worker : ids) look(worker, run);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  JournalReplay replay;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = cli::render_event(text.substr(0, end));
    for (const char c : line) fuzz::check(c < 0 || (c >= ' ' && c != 0x7f), "a control byte reaches the terminal");
    replay.take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  look(replay.result());
  return 0;
}
