// A client program that does not do what it should: what is told of it, and that nothing waits for it for ever.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <string>

#include "directory.h"
#include "supervisor/protocol/remote_place.h"
#include "tests/support/contains.h"
#include "train/checkpoint/client_target.h"

namespace elastictrain::checkpoint::test {
namespace {

using elastictrain::test::contains;

class Fault {
 public:
  explicit Fault(const char* name) { ::setenv("CLIENT_FAULT", name, 1); }
  ~Fault() { ::unsetenv("CLIENT_FAULT"); }
};

Store store_with(const Directory& directory, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return Store("dir://" + directory.path(), {CLIENT_PROGRAM, timeout});
}

std::string problem_of(const Store& store) {
  const auto listing = store.list();
  return listing.ok() ? "none" : listing.error().message;
}

ErrorCode load_error(const Store& store) {
  State state;
  std::vector<std::string> skipped;
  return store.load_newest(state.buffers, 0, {}, skipped).error().code;
}

TEST_CASE("what a client says on standard error is told, with the place and its status") {
  const Directory directory;
  const Fault fault("fail");
  const std::string problem = problem_of(store_with(directory));
  CHECK(contains(problem, "dir://" + directory.path() + ": the client"));
  CHECK(contains(problem, "ended with status 3: An error occurred (AccessDenied): no credentials"));
  CHECK(contains(save(store_with(directory), {1, 1}).error().message, "AccessDenied"));
}

TEST_CASE("a client that does not end is ended") {
  const Directory directory;
  const Fault fault("hang");
  const auto store = store_with(directory, std::chrono::milliseconds(200));
  CHECK(contains(problem_of(store), "had not done within 200 ms (checkpoint.client_timeout_ms)"));
}

TEST_CASE("a client that reads nothing costs the checkpoint and no signal") {
  const Directory directory;
  const auto store = store_with(directory);
  REQUIRE(save(store, {1, 1}).ok());
  const Fault fault("deaf");
  CHECK(contains(save(store, {1, 2}).error().message, "ended with status 5"));
  CHECK(store.list()->manifests.size() == 1);
}

TEST_CASE("a list that is none is refused with its first line") {
  const Directory directory;
  const Fault fault("rubbish");
  CHECK(contains(problem_of(store_with(directory)), "lines \"BYTES NAME\", not \"2026-01-01 Total: 3\""));
}

TEST_CASE("a file that comes in half is no checkpoint") {
  const Directory directory;
  const auto store = store_with(directory);
  REQUIRE(save(store, {1, 1}).ok());
  const Fault fault("half");
  State state;
  std::vector<std::string> skipped;
  const auto loaded = store_with(directory).load_newest(state.buffers, 0, {}, skipped);
  REQUIRE_FALSE(loaded.ok());
  CHECK(contains(loaded.error().message, "it is shorter than expected"));
}

TEST_CASE("a manifest that was just put is not fetched") {
  const Directory directory;
  const auto store = store_with(directory);
  REQUIRE(save(store, {1, 1}).ok());
  const Fault fault("half");
  CHECK(store.list()->manifests.size() == 1);
  CHECK(store_with(directory).list()->manifests.empty());
}

TEST_CASE("a store that does not give what it has is no reason to go back to an older checkpoint") {
  const Directory directory;
  const auto store = store_with(directory);
  REQUIRE(save(store, {1, 1}).ok());
  REQUIRE(save(store, {1, 2}).ok());
  CHECK(store.list()->manifests.size() == 2);  // the manifests are known
  const Fault fault("away");
  State state;
  std::vector<std::string> skipped;
  const auto anew = store_with(directory).load_newest(state.buffers, 0, {}, skipped);  // fails at the first manifest
  const auto known = store.load_newest(state.buffers, 0, {}, skipped);                 // fails at the data
  for (const auto* loaded : {&anew, &known}) {
    REQUIRE_FALSE(loaded->ok());
    CHECK(loaded->error().code == ErrorCode::kIo);
    CHECK(contains(loaded->error().message, "ended with status 2: connection reset"));
  }
}

TEST_CASE("a client that is not there is named, with what to do") {
  const Store store("s3://bucket/run", {"/nonexistent/client", std::chrono::seconds(1)});
  CHECK(contains(problem_of(store), "the client /nonexistent/client cannot be run: No such file"));
  CHECK(contains(problem_of(store), "set checkpoint.client"));
  CHECK(load_error(store) == ErrorCode::kIo);  // kUnavailable would be the start of a run at its first step
}

// A command line of this name that does what `text` says, before those that are installed.
class Installed {
 public:
  Installed(const Directory& directory, const std::string& name, const std::string& text) : before_(::getenv("PATH")) {
    directory.write(name, "#!/bin/sh\n" + text);
    fs::permissions(directory / name, fs::perms::owner_all);
    ::setenv("PATH", (directory.path() + ":" + before_).c_str(), 1);
  }
  ~Installed() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST_CASE("a bucket that cannot be listed is not empty") {
  const Directory directory;
  const Installed aws(directory, "aws", "echo 'Could not connect to the endpoint URL' >&2; exit 255\n");
  const Installed rclone(directory, "rclone", "echo 'AccessDenied' >&2; exit 1\n");
  CHECK(contains(problem_of(Store("s3://bucket/run")),
                 "the client aws ended with status 255: Could not connect to the endpoint URL"));
  CHECK(contains(problem_of(Store("rclone://remote/run")), "the client rclone ended with status 1: AccessDenied"));
}

TEST_CASE("the lists of the AWS command line and of rclone are read, also where there is nothing") {
  const Directory directory;
  const std::string aws = "[ \"$4 $6 $8\" = 'bucket a/run/ /' ] || exit 9\n";
  {
    const Installed full(directory, "aws",
                         aws + "printf '10\\ta/run/step-4.gen-1.safetensors\\n9\\ta/run/notes of mine\\n'\n");
    CHECK(contains(Store("s3://bucket/a/run").list()->problems.at(0), "s3://bucket/a/run/step-4.gen-1.safetensors"));
  }
  const Installed empty(directory, "aws", aws + "echo None\n");
  CHECK(load_error(Store("s3://bucket/a/run/")) == ErrorCode::kUnavailable);
  const Installed none(directory, "rclone", "[ \"$7\" = remote:a/run ] && echo 'directory not found' >&2 && exit 3\n");
  CHECK(load_error(Store("rclone://remote/a/run")) == ErrorCode::kUnavailable);
}

TEST_CASE("manifests are read once, however often checkpoints are listed") {
  const Directory directory;
  const auto store = store_with(directory);
  REQUIRE(save(store, {1, 1}).ok());
  CHECK(store.list()->manifests.size() == 1);
  const Fault fault("half");  // of what is read from now on
  CHECK(store.list()->manifests.size() == 1);
  CHECK_FALSE(store_with(directory).list()->problems.empty());
}

TEST_CASE("a place is remote if it begins with a scheme") {
  CHECK(protocol::is_remote_place("s3://bucket/prefix"));
  CHECK(protocol::is_remote_place("rclone://remote/path"));
  for (const char* path : {"", "/runs/a", "runs/a", "C:/runs", "://x", "a b://x", "./s3://x"})
    CHECK_FALSE(protocol::is_remote_place(path));
}

}  // namespace
}  // namespace elastictrain::checkpoint::test
