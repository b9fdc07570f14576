// What a cluster learns of a run from its directory.
#include <doctest/doctest.h>
#include <unistd.h>

#include "cli/commands/cluster/cluster.h"
#include "supervisor/run_record.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::cli {
namespace {

using State = cluster_core::Probed::State;

// The directory of a run that has ended.
struct EndedRun : test::TemporaryDirectory {
  EndedRun() {
    RunRecord record;
    record.end = RunRecord::End{};
    record.end->exit_status = 3;
    record.end->ended_unix_s = 2;
    REQUIRE(save_run_record(path, record).ok());
    job.id = 1;
    job.owner.uid = ::geteuid();
    job.directory = path;
    job.submitted_unix_s = 1;
  }
  cluster_core::Job job;
};

TEST_CASE_FIXTURE(EndedRun, "the record of a run of this user says how it has ended") {
  const auto found = probe_run(job);
  CHECK(found.state == State::kEnded);
  CHECK(found.status == 3);
}

TEST_CASE_FIXTURE(EndedRun, "a directory that another user has named is not looked at") {
  ++job.owner.uid;
  CHECK(probe_run(job).state == State::kUnknown);
  job.owner.uid = ::geteuid() == 0 ? 1 : 0;
  job.owner.of_cluster = true;
  CHECK(probe_run(job).state == State::kUnknown);
}

}  // namespace
}  // namespace elastictrain::cli
