#include "supervisor/protocol/codec.h"

#include <doctest/doctest.h>

#include "supervisor/protocol/wire.h"

namespace elastictrain::protocol {
namespace {

std::string frame(const std::string& body) {
  std::string out(kFrameHeaderBytes, '\0');
  wire::put_length(out.data(), body.size());
  return out + body;
}

TEST_CASE("frame reader: frames that arrive byte by byte come out whole and in order") {
  FrameReader reader(100);
  const std::string stream = frame("one") + frame("") + frame("three");
  std::vector<std::string> got;
  for (char byte : stream) {
    REQUIRE(reader.feed(std::string_view(&byte, 1)).ok());
    while (auto body = reader.next()) got.push_back(*body);
  }
  CHECK(got == std::vector<std::string>{"one", "", "three"});
  CHECK(reader.buffered_bytes() == 0);
}

TEST_CASE("frame reader: several frames in one read come out one by one") {
  FrameReader reader(100);
  REQUIRE(reader.feed(frame("a") + frame("b") + frame("c").substr(0, 2)).ok());
  CHECK(reader.next() == "a");
  CHECK(reader.next() == "b");
  CHECK_FALSE(reader.next().has_value());
}

TEST_CASE("frame reader: an oversized length is refused before its bytes arrive, also behind a good frame") {
  FrameReader reader(8);
  CHECK_FALSE(reader.feed(frame(std::string(9, 'x')).substr(0, 4)).ok());
  FrameReader second(8);
  REQUIRE(second.feed(frame("ok") + frame(std::string(9, 'x'))).ok());
  CHECK(second.next() == "ok");
  CHECK_FALSE(second.next().has_value());
  CHECK(second.failed());
  CHECK_FALSE(second.feed("").ok());
}

}  // namespace
}  // namespace elastictrain::protocol
