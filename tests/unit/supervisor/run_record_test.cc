// What may stand where the record of a run is looked for.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "supervisor/run_record.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain {
namespace {

// A directory with a record that can be read, and the place of one that cannot.
struct Records : test::TemporaryDirectory {
  Records() {
    std::filesystem::create_directory(path + "/good");
    std::filesystem::create_directory(path + "/bad");
    RunRecord record;
    record.run_name = "good";
    REQUIRE(save_run_record(path + "/good", record).ok());
    REQUIRE(load_run_record(path + "/good").ok());
    text = test::read_file(run_record_path(path + "/good"));
    bad = run_record_path(path + "/bad");
  }
  ErrorCode error() const {
    const auto loaded = load_run_record(path + "/bad");
    return loaded.ok() ? ErrorCode::kInternal : loaded.error().code;
  }
  std::string text, bad;
};

TEST_CASE_FIXTURE(Records, "a pipe in place of a record is not waited for") {
  ::signal(SIGPIPE, SIG_IGN);
  REQUIRE(::mkfifo(bad.c_str(), 0600) == 0);
  // It would give a good record to a reader that waits.
  int refusal = EPIPE;
  std::thread writer([&] {
    const int end = ::open(bad.c_str(), O_WRONLY);
    if (::write(end, text.data(), text.size()) < 0) refusal = errno;
    ::close(end);
  });
  CHECK(error() == ErrorCode::kInvalid);
  const int reader = ::open(bad.c_str(), O_RDONLY | O_NONBLOCK);  // so that the writer ends
  writer.join();
  CHECK(refusal == EPIPE);
  ::close(reader);
}

TEST_CASE_FIXTURE(Records, "a file that is too long for a record is not read") {
  std::ofstream(bad) << text << std::string(17u << 20, ' ');
  CHECK(error() == ErrorCode::kInvalid);
}

TEST_CASE_FIXTURE(Records, "a link in place of a record is not followed") {
  std::filesystem::create_symlink(run_record_path(path + "/good"), bad);
  CHECK(error() == ErrorCode::kInvalid);
}

TEST_CASE_FIXTURE(Records, "a run whose last loss was no number can be read, and its loss is not known") {
  RunRecord record;
  record.run_name = "good";
  record.end = RunRecord::End{.exit_status = 1, .reason = "diverged", .step = 7, .loss = std::nan("")};
  REQUIRE(save_run_record(path + "/good", record).ok());
  const auto read = load_run_record(path + "/good");
  REQUIRE(read.ok());
  CHECK(read->end->step == 7);
  CHECK(read->end->loss == 0);
}

TEST_CASE_FIXTURE(Records, "the end of a run is kept where there is no place for a new file") {
  std::filesystem::create_directory(run_record_path(path + "/good") + ".new");
  RunRecord record;
  record.run_name = "good";
  CHECK_FALSE(save_run_record(path + "/good", record).ok());
  record.end = RunRecord::End{.exit_status = 3, .reason = std::string(1u << 20, 'x')};
  CHECK_FALSE(save_run_record(path + "/good", record).ok());  // more than the old file has space for
  CHECK(test::read_file(run_record_path(path + "/good")) == text);
  record.end->reason = "failed";
  REQUIRE(save_run_record(path + "/good", record).ok());
  CHECK(load_run_record(path + "/good")->end->exit_status == 3);
}

TEST_CASE_FIXTURE(Records, "no file is no run") {
  CHECK(error() == ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace elastictrain
