#include "train/builtin/data_load.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"
#include "train/builtin/model.h"

using namespace elastictrain;
using namespace elastictrain::train;

namespace {

using test::TemporaryDirectory;

TrainerOptions csv_options(const std::string& train, const std::string& test = "") {
  TrainerOptions options;
  options.train = train;
  options.test = test;
  return options;
}

std::string load_error(const TrainerOptions& options) {
  const auto task = load_labelled_task(options);
  return task.ok() ? "no error" : task.error().message;
}

}  // namespace

TEST_CASE("several files are joined; columns are centred on their mean and scaled by their range") {
  const TemporaryDirectory dir;
  const std::string a = dir.write("a.csv", "2,10,7,0\n");
  const std::string b = dir.write("b.csv", "-4,0,7,1\n");
  const auto task = load_labelled_task(csv_options(a + "," + b, dir.write("t.csv", "8,5,9,1\n")));
  REQUIRE(task.ok());
  CHECK(task->train.size() == 2);
  CHECK(task->classes == 2);
  std::vector<float> row(3);
  copy_scaled_row(task->train, task->scaling, 1, row.data());
  CHECK(row == std::vector<float>{-1, -1, 0});
  copy_scaled_row(task->test, task->scaling, 0, row.data());
  CHECK(row[0] == doctest::Approx(3));
  CHECK(row[1] == 0);
  CHECK(row[2] == 2);
}

TEST_CASE("formats are recognized by content and name") {
  CHECK(guess_format(std::string_view("\0\0\x08\x03", 4), "x") == DataFormat::kIdx);
  CHECK(guess_format("\x1f\x8b", "x.csv") == DataFormat::kIdx);
  CHECK(guess_format("\x03\x01", "data_batch_1.bin") == DataFormat::kCifar10);
  CHECK(guess_format("1,2,3\n", "rows") == DataFormat::kCsv);
}

TEST_CASE("an IDX pair on disk is found and read") {
  const TemporaryDirectory dir;
  dir.write("x-labels-idx1-ubyte", std::string("\0\0\x08\1\0\0\0\2\3\1", 10));
  const std::string images = dir.write("x-images-idx3-ubyte", std::string("\0\0\x08\2\0\0\0\2\0\0\0\2\xff\0\0\0", 16));
  const auto task = load_labelled_task(csv_options(images));
  REQUIRE(task.ok());
  CHECK(task->classes == 4);
  std::vector<float> row(2);
  copy_scaled_row(task->train, task->scaling, 0, row.data());
  CHECK(row[0] == doctest::Approx(1));
  CHECK(row[1] == 0);
}

TEST_CASE("files that cannot be read or do not match are named") {
  const TemporaryDirectory dir;
  const std::string good = dir.write("good.csv", "1,2,0\n3,4,1\n");
  CHECK(load_error(csv_options(dir.path + "/none.csv")).find("none.csv: cannot be opened") != std::string::npos);
  CHECK(load_error(csv_options(dir.path)).find("is not a regular file") != std::string::npos);
  const std::string pipe = dir.path + "/pipe.csv";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(load_error(csv_options(pipe)).find("is not a regular file") != std::string::npos);
  CHECK(load_error(csv_options(dir.write("empty.csv", ""))).find("empty.csv: is empty") != std::string::npos);
  const std::string narrow = dir.write("narrow.csv", "1,0\n");
  CHECK(load_error(csv_options(good + "," + narrow)).find("narrow.csv: has 1 values") != std::string::npos);
  CHECK(load_error(csv_options(good, narrow)).find("narrow.csv: has 1 values") != std::string::npos);
  const std::string label = dir.write("label.csv", "1,2,0\n1,2,2\n");
  CHECK(load_error(csv_options(good, label)).find("label.csv: row 2 has label 2") != std::string::npos);
}

TEST_CASE("a text too short for one sample is refused") {
  const TemporaryDirectory dir;
  TrainerOptions options;
  options.model = ModelKind::kCharLm;
  options.train = dir.write("short.txt", "to be or not to be");
  const auto model = make_model(options);
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().message.find("short.txt: 17 characters") != std::string::npos);
}
