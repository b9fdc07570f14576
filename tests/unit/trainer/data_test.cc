#include <doctest/doctest.h>

#include <string>

#include "train/builtin/data_formats.h"
#include "train/builtin/dataset.h"

using namespace elastictrain;
using namespace elastictrain::train;

namespace {

template <class T>
std::string message(const Result<T>& result) {
  return result.ok() ? "no error" : result.error().message;
}

std::string idx_file(std::initializer_list<std::uint32_t> dimensions, std::string_view data) {
  std::string bytes = {0, 0, 8, static_cast<char>(dimensions.size())};
  for (const std::uint32_t size : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(size >> shift));
  }
  return bytes.append(data);
}

Result<LabelledRows> parse_pair(const std::string& images, const std::string& labels) {
  return parse_idx({images, "img"}, {labels, "lab"});
}

}  // namespace

TEST_CASE("CSV rows are read with the label last, with and without a header") {
  for (const std::string header : {"", "a,b,label\n"}) {
    const auto rows = parse_csv(header + "1,2.5,0\r\n\n -3 , 4e1 ,7\n", "f.csv");
    REQUIRE(rows.ok());
    CHECK(rows->features == 2);
    CHECK(rows->labels == std::vector<std::uint32_t>{0, 7});
    CHECK(rows->numbers == std::vector<float>{1, 2.5F, -3, 40});
  }
}

TEST_CASE("a CSV error names file, line and cell") {
  const std::pair<std::string, std::string> bad[] = {
      {"1,2,0\n1,x,0\n", "f.csv:2: cell 2 is 'x', not a number"},
      {"a,b,c\n1,2,0\n\n1,2\n", "f.csv:4: 2 cells, but the rows before have 3"},
      {"1,2,0\n1,2,\n", "f.csv:2: cell 3 is ''"},
      {"1,2,-1\n", "f.csv:1: the label"},
      {"1,2,0.5\n", "f.csv:1: the label"},
      {"1,2,65536\n", "f.csv:1: the label"},
      {"1,nan,0\n", "f.csv:1: cell 2"},
      {"1,1e99,0\n", "f.csv:1: cell 2"},
      {"1,b,0\n", "f.csv:1: cell 2"},
      {"a,b,c\n", "f.csv:1: this file has no row"},
      {"5\n", "f.csv:1: a row needs"},
      {"", "f.csv:0: this file has no row"}};
  for (const auto& [text, expected] : bad) {
    CAPTURE(text);
    CHECK(message(parse_csv(text, "f.csv")).starts_with(expected));
  }
}

TEST_CASE("IDX images and labels make rows of bytes") {
  const auto rows = parse_pair(idx_file({2, 1, 3}, std::string("\1\2\3\4\5\377", 6)), idx_file({2}, "\7\2"));
  REQUIRE(rows.ok());
  CHECK(rows->features == 3);
  CHECK(rows->labels == std::vector<std::uint32_t>{7, 2});
  CHECK(rows->bytes == std::vector<std::uint8_t>{1, 2, 3, 4, 5, 255});
}

TEST_CASE("an IDX error names file and offset") {
  const std::string images = idx_file({2, 1, 1}, "ab");
  const std::string labels = idx_file({2}, "\1\2");
  REQUIRE(parse_pair(images, labels).ok());
  CHECK(message(parse_pair(images.substr(0, 17), labels)).starts_with("img: offset 17: the header announces 2 bytes"));
  CHECK(message(parse_pair(images.substr(0, 9), labels)).starts_with("img: offset 9: cut off"));
  CHECK(message(parse_pair("", labels)).starts_with("img: offset 0: cut off"));
  CHECK(message(parse_pair(images + "x", labels)).starts_with("img: offset 19: the header announces 2 bytes"));
  CHECK(message(parse_pair("\1" + images.substr(1), labels)).starts_with("img: offset 0: wrong magic number"));
  CHECK(message(parse_pair("\x1f\x8b\x08\x01", labels)).find("gunzip") != std::string::npos);
  CHECK(message(parse_pair(std::string("\0\0\x0d\3", 4), labels)).starts_with("img: offset 2: element type"));
  CHECK(message(parse_pair(labels, labels)).starts_with("img: offset 3: images need"));
  CHECK(message(parse_pair(images, images)).starts_with("lab: offset 3: labels need"));
  CHECK(message(parse_pair(images, idx_file({3}, "abc"))).starts_with("lab: offset 4: 3 labels for 2 images"));
  CHECK(message(parse_pair(idx_file({0, 1}, ""), labels)).starts_with("img: offset 4: a dimension of size 0"));
  const std::string huge = idx_file({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "a");
  CHECK(message(parse_pair(huge, labels)).starts_with("img: offset 8: the dimensions are too large"));
}

TEST_CASE("the labels of IDX images are found by name") {
  CHECK(idx_labels_path("d/train-images-idx3-ubyte").value() == "d/train-labels-idx1-ubyte");
  CHECK(idx_labels_path("images/t10k-images.idx3-ubyte").value() == "images/t10k-labels.idx1-ubyte");
  CHECK_FALSE(idx_labels_path("images/pictures").has_value());
}

TEST_CASE("CIFAR-10 records are a label and 3,072 bytes") {
  std::string two(2 * kCifar10RecordBytes, '\5');
  two[kCifar10RecordBytes] = 9;
  two.back() = 1;
  const auto rows = parse_cifar10(two, "b.bin");
  REQUIRE(rows.ok());
  CHECK(rows->labels == std::vector<std::uint32_t>{5, 9});
  CHECK(rows->bytes.size() == 2 * kCifar10PixelBytes);
  CHECK(rows->bytes.back() == 1);

  CHECK(message(parse_cifar10(two.substr(0, 5000), "b.bin")).starts_with("b.bin: offset 3073: cut off"));
  CHECK(message(parse_cifar10("", "b.bin")).starts_with("b.bin: offset 0: cut off"));
  two[kCifar10RecordBytes] = 10;
  CHECK(message(parse_cifar10(two, "b.bin")).starts_with("b.bin: offset 3073: label 10"));
}

TEST_CASE("text becomes indices and its last tenth is held out") {
  const auto task = make_text_task("abcabcabcabcabcabcab", "t", "", "");
  REQUIRE(task.ok());
  CHECK(task->vocabulary == 3);
  CHECK(task->train.size() == 18);
  CHECK(task->test == std::vector<std::uint8_t>{0, 1});
  CHECK(task->train[1] == 1);
}

TEST_CASE("a held-out character that training lacks is an error with its offset") {
  const auto task = make_text_task("ab", "train.txt", "abz", "test.txt");
  CHECK(message(task).starts_with("test.txt: offset 2: byte 122"));
}

TEST_CASE("generated data depend on their arguments alone") {
  const LabelledTask a = generate_task(200, 3);
  const LabelledTask b = generate_task(200, 3);
  const LabelledTask c = generate_task(200, 4);
  CHECK(a.train.numbers == b.train.numbers);
  CHECK(a.test.labels == b.test.labels);
  CHECK(a.train.numbers != c.train.numbers);
  CHECK(a.train.size() == 200);
  CHECK(a.test.size() == 50);
  CHECK(a.classes == 10);
}
