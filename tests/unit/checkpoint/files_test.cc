// Purpose: data written past the page cache and data written through it must form one file.
#include "train/checkpoint/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "directory.h"
#include "tests/skip.h"

namespace elastictrain::checkpoint::test {
namespace {

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// Numbered bytes at an address that direct writes accept.
struct Numbered {
  explicit Numbered(std::size_t count)
      : bytes(static_cast<std::byte*>(
            std::aligned_alloc(kDirectAlignment, (count / kDirectAlignment + 2) * kDirectAlignment))),
        size(count) {
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  std::span<const std::byte> from(std::size_t begin, std::size_t count) const {
    return {bytes.get() + begin, std::min(count, size - begin)};
  }
  std::unique_ptr<std::byte[], Free> bytes;
  std::size_t size;
};

void write_in_pieces(const std::string& directory, const Numbered& source, std::size_t first, std::size_t piece) {
  const auto target = make_directory_target(directory);
  auto created = target->create("whole", "whole.tmp", source.size);
  REQUIRE(created.ok());
  Sink* const file = created->get();
  REQUIRE(file->write(source.from(0, first)).ok());
  for (std::size_t offset = first; offset < source.size; offset += piece) {
    REQUIRE(file->write(source.from(offset, piece)).ok());
  }
  REQUIRE(file->sync().ok());
  REQUIRE(file->publish().ok());
}

bool holds(const std::string& directory, const Numbered& source) {
  const auto read = read_whole(*make_directory_target(directory), "whole", source.size + 1);
  REQUIRE(read.ok());
  return read->size() == source.size && std::equal(read->begin(), read->end(), source.bytes.get());
}

TEST_CASE("aligned and other pieces become one file") {
  const Numbered source(3 * kDirectAlignment * 16 + 123);
  for (const std::size_t first : {std::size_t{0}, std::size_t{100}, kDirectAlignment, kDirectAlignment + 512}) {
    for (const std::size_t piece : {kDirectAlignment, 16 * kDirectAlignment, std::size_t{5000}}) {
      CAPTURE(first);
      CAPTURE(piece);
      Directory directory;
      write_in_pieces(directory.path(), source, first, piece);
      CHECK(holds(directory.path(), source));
    }
  }
}

TEST_CASE("a file system in memory takes the same pieces") {
  struct stat info {};
  if (::stat("/dev/shm", &info) != 0) {
    elastictrain::tests::skip_aloud("there is no /dev/shm here");
    return;
  }
  char name[] = "/dev/shm/elastictrain-files-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const std::string directory = name;
  const Numbered source(20 * kDirectAlignment + 1);
  write_in_pieces(directory, source, kDirectAlignment, 4 * kDirectAlignment);
  CHECK(holds(directory, source));
  ::unlink((directory + "/whole").c_str());
  ::rmdir(name);
}

}  // namespace
}  // namespace elastictrain::checkpoint::test
