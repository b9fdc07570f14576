// The board of a run: what it keeps, whom it answers when, and what a later supervisor finds of it.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "supervisor/board.h"
#include "supervisor/protocol/limits.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain {
namespace {

using std::chrono::milliseconds;

constexpr WorkerId kFirst{1}, kSecond{2};

struct Wall {
  Board board;
  std::uint64_t number = 0;
  Instant now{};

  std::string put(const std::string& key, const std::string& value, WorkerId worker = kFirst) {
    bool is_new = false;
    return board.put(worker, {++number, key, value}, is_new);
  }
  std::string value_of(const std::string& key) const {
    const auto found = board.entries().find(key);
    return found == board.entries().end() ? "none" : found->second.value;
  }
  std::optional<Board::Answer> answered() {
    return board.take_answer(now, [](WorkerId) { return true; });
  }
};

TEST_CASE("a value stays until it is replaced, and one that a worker repeats replaces no later one") {
  Wall wall;
  CHECK(wall.put("a", "one") == "");
  CHECK(wall.put("a", "two", kSecond) == "");
  CHECK(wall.value_of("a") == "two");
  bool is_new = true;
  CHECK(wall.board.put(kFirst, {1, "a", "one"}, is_new) == "");
  CHECK_FALSE(is_new);
  CHECK(wall.value_of("a") == "two");
}

TEST_CASE("what is too large for the board is refused, and replacing makes room") {
  Wall wall;
  CHECK(wall.put("", "x").find("200 bytes") != std::string::npos);
  CHECK(wall.put(std::string(limits::kMaxBoardKeyBytes + 1, 'k'), "x") != "");
  CHECK(wall.put(std::string(limits::kMaxBoardKeyBytes, 'k'), "x") == "");
  CHECK(wall.put("a", std::string(limits::kMaxBoardValueBytes + 1, 'v')) != "");
  const std::string large(limits::kMaxBoardValueBytes, 'v');
  const std::size_t fits = limits::kMaxBoardBytes / limits::kMaxBoardValueBytes - 1;
  for (std::size_t i = 0; i < fits; ++i) CHECK(wall.put("a" + std::to_string(i), large) == "");
  CHECK(wall.put("one more", large).find("the board is full") != std::string::npos);
  CHECK(wall.value_of("one more") == "none");
  CHECK(wall.put("a0", "") == "");
  CHECK(wall.put("one more", large) == "");
  CHECK(wall.board.bytes() <= limits::kMaxBoardBytes);
}

TEST_CASE("a question is answered when its key has a value, at its deadline, or at once") {
  Wall wall;
  wall.board.get(kFirst, {7, "a", 1000}, wall.now);
  CHECK_FALSE(wall.answered());
  CHECK(wall.board.next_deadline() == wall.now + milliseconds(1000));
  wall.put("a", "one", kSecond);
  auto answer = wall.answered();
  REQUIRE(answer);
  CHECK(answer->worker == kFirst);
  CHECK(answer->content.number == 7);
  CHECK(answer->content.found);
  CHECK(answer->content.value == "one");
  CHECK_FALSE(wall.board.next_deadline());

  wall.board.get(kFirst, {8, "b", 1000}, wall.now);
  wall.now += milliseconds(999);
  CHECK_FALSE(wall.answered());
  wall.now += milliseconds(1);
  answer = wall.answered();
  REQUIRE(answer);
  CHECK(answer->content.number == 8);
  CHECK_FALSE(answer->content.found);

  wall.board.get(kSecond, {9, "a", 0}, wall.now);
  CHECK(wall.answered()->content.value == "one");
}

TEST_CASE("a question that is repeated is one question, and a worker that can take nothing now is answered later") {
  Wall wall;
  wall.put("a", "one");
  wall.board.get(kSecond, {4, "a", 100}, wall.now);
  wall.board.get(kSecond, {5, "a", 100}, wall.now);
  CHECK_FALSE(wall.board.take_answer(wall.now, [](WorkerId worker) { return worker != kSecond; }));
  CHECK(wall.answered()->content.number == 5);
  CHECK_FALSE(wall.answered());
}

struct Disk {
  test::TemporaryDirectory directory;
  std::string path = directory.file("board");
  std::string problems;

  BoardFile file() {
    return BoardFile(path, [this](const std::string& text) { problems += text; });
  }
  static void put(BoardFile& file, Board& board, const protocol::BoardPut& value, WorkerId worker = kFirst) {
    bool is_new = false;
    REQUIRE(board.put(worker, value, is_new).empty());
    file.append(worker, value, board);
  }
  Wall loaded() {
    Wall wall;
    file().load(wall.board);
    return wall;
  }
};

TEST_CASE("a later supervisor finds the values, except one that was torn") {
  Disk disk;
  {
    Board board;
    auto file = disk.file();
    Disk::put(file, board, {1, "a", "one"});
    Disk::put(file, board, {2, "b", std::string("\0binary", 7)}, kSecond);
    Disk::put(file, board, {3, "a", "two"});
  }
  CHECK(disk.loaded().value_of("a") == "two");
  CHECK(disk.loaded().value_of("b") == std::string("\0binary", 7));
  const auto whole = std::filesystem::file_size(disk.path);
  {
    Board board;
    auto file = disk.file();
    file.load(board);
    Disk::put(file, board, {4, "c", "three"});
  }
  std::filesystem::resize_file(disk.path, std::filesystem::file_size(disk.path) - 1);
  CHECK(disk.loaded().value_of("c") == "none");
  CHECK(disk.loaded().value_of("a") == "two");
  CHECK(std::filesystem::file_size(disk.path) <= whole);  // written anew without what was torn
  bool is_new = true;
  CHECK(disk.loaded().board.put(kFirst, {3, "a", "two"}, is_new).empty());
  CHECK_FALSE(is_new);
  disk.file().remove();
  CHECK(disk.loaded().board.entries().empty());
  CHECK(disk.problems == "");
}

TEST_CASE("the file does not grow with every value that is replaced, and what damaged it is survived") {
  Disk disk;
  Board board;
  auto file = disk.file();
  const std::string value(1u << 20, 'v');
  for (std::uint64_t i = 1; i <= 60; ++i) Disk::put(file, board, {i, "a", value});
  CHECK(std::filesystem::file_size(disk.path) < (24u << 20));
  std::ofstream(disk.path) << "no frame at all, and more than four bytes of it";
  CHECK(disk.loaded().board.entries().empty());
}

TEST_CASE("a disk that cannot be written is reported once, and a later value writes all of them") {
  Disk disk;
  std::filesystem::create_directory(disk.path + ".new");
  Board board;
  auto file = disk.file();
  Disk::put(file, board, {1, "a", "one"});
  Disk::put(file, board, {2, "b", "two"});
  CHECK(disk.problems.find("cannot be written") != std::string::npos);
  CHECK(disk.problems.find("cannot be written", disk.problems.find("cannot be written") + 1) == std::string::npos);
  std::filesystem::remove(disk.path + ".new");
  Disk::put(file, board, {3, "c", "three"});
  const Wall wall = disk.loaded();
  CHECK(wall.value_of("a") == "one");
  CHECK(wall.value_of("c") == "three");
}

}  // namespace
}  // namespace elastictrain
