// A trace file with any content, of any format, a cluster's journal among them: jobs that a simulation can take, or an
// error that names the place.
#include <cmath>
#include <cstdint>
#include <string>

#include "cli/traces/formats.h"
#include "tests/fuzz/check.h"

namespace {

using namespace elastictrain;

void look(const cli::RawTrace& trace) {
  fuzz::check(!trace.jobs.empty(), "a trace without jobs");
  for (const cli::RawJob& raw : trace.jobs) {
    const auto& job = raw.job;
    fuzz::check(std::isfinite(job.arrival_s) && job.arrival_s >= 0, "an arrival that is no time");
    fuzz::check(std::isfinite(job.work) && job.work >= 0, "work that is no number");
    fuzz::check(std::isfinite(raw.duration_s) && raw.duration_s >= 0, "a duration that is no time");
    fuzz::check(job.requested >= 1 && job.least >= 1, "a job that asks for nothing");
    if (job.curve != nullptr) fuzz::check(job.curve->best(job.curve->cap()) > 0, "a job that never gets on");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cli::TraceText source{"trace.csv", "trace", std::string(reinterpret_cast<const char*>(data), size)};
  const auto trace = cli::read_format(source, "");
  if (trace.ok()) {
    look(*trace);
  } else {
    fuzz::check(trace.error().message.starts_with("trace.csv"), "a trace is refused without its place");
  }
  return 0;
}
