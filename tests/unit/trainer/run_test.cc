// The whole trainer in this process, alone: real session, real model, its output and its exit status.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"
#include "train/builtin/loop/trainer.h"

using namespace elastictrain::train;

namespace {

struct Run {
  int status = 0;
  std::string output;
  std::string errors;
};

// Redirects a standard stream to an unnamed file while the object exists.
class Captured {
 public:
  explicit Captured(std::FILE* stream) : stream_(stream), file_(std::tmpfile()) {
    REQUIRE(file_ != nullptr);
    std::fflush(stream_);
    kept_ = ::dup(::fileno(stream_));
    ::dup2(::fileno(file_), ::fileno(stream_));
  }
  ~Captured() {
    std::fclose(file_);
    ::close(kept_);
  }

  std::string stop() {
    std::fflush(stream_);
    ::dup2(kept_, ::fileno(stream_));
    std::rewind(file_);
    std::string text;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) text.push_back(static_cast<char>(c));
    return text;
  }

 private:
  std::FILE* stream_;
  std::FILE* file_;
  int kept_ = -1;
};

Run run(const TrainerOptions& options) {
  ::unsetenv("ELASTICTRAIN_SOCKET");
  Captured out(stdout);
  Captured err(stderr);
  Run result;
  result.status = run_trainer(options);
  result.output = out.stop();
  result.errors = err.stop();
  return result;
}

using elastictrain::test::contains;

}  // namespace

TEST_CASE("training alone tells every epoch and ends with the held-out accuracy") {
  TrainerOptions options;
  options.epochs = 3;
  options.samples = 1024;
  options.batch = 64;
  const Run result = run(options);
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(result.errors.empty());
  for (const char* part : {"epoch 1/3: loss ", "epoch 3/3: loss ", "1 worker, ", "finished after 48 steps: held-out"}) {
    CAPTURE(part);
    CHECK(contains(result.output, part));
  }
}

TEST_CASE("without held-out data the trainer ends without a score") {
  TrainerOptions options;
  options.model = ModelKind::kSynthetic;
  options.compute_us_per_sample = 0;
  options.max_steps = 5;
  options.log_every_steps = 2;
  const Run result = run(options);
  CHECK(result.status == 0);
  CHECK(contains(result.output, "step 2: loss "));
  CHECK(contains(result.output, "step 4: loss "));
  CHECK(contains(result.output, "finished after 5 steps\n"));
}

TEST_CASE("scoring only at the end gives one score") {
  TrainerOptions options;
  options.epochs = 2;
  options.samples = 256;
  options.eval_every_epochs = 0;
  const Run result = run(options);
  CHECK(result.output.find("held-out") == result.output.rfind("held-out"));
  CHECK(contains(result.output, "held-out"));
}

TEST_CASE("epochs that are shorter than a score have one each") {
  TrainerOptions options;
  options.epochs = 60;
  options.samples = 64;
  options.batch = 32;
  const Run result = run(options);
  std::size_t scores = 0;
  for (std::size_t at = 0; (at = result.output.find("held-out loss", at)) != std::string::npos; ++at) ++scores;
  CHECK(scores == 60);  // the last one at the end
}

TEST_CASE("the exit status tells bad options, bad data and missing files apart") {
  TrainerOptions options;
  options.model = ModelKind::kCharLm;
  CHECK(run(options).status == 64);

  options.model = ModelKind::kMlp;
  options.train = "/nowhere/rows.csv";
  const Run missing = run(options);
  CHECK(missing.status == 66);
  CHECK(contains(missing.errors, "/nowhere/rows.csv: cannot be opened"));

  const elastictrain::test::TemporaryDirectory directory;
  options.train = directory.write("text.csv", "// a text\nand no numbers\n");
  const Run bad = run(options);
  CHECK(bad.status == 65);
  CHECK(contains(bad.errors, "text.csv:2: "));
}
