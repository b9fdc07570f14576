#include "supervisor/core/journal_fields.h"

#include <doctest/doctest.h>

#include <limits>

using namespace elastictrain::core;

TEST_CASE("texts become JSON strings whatever they hold") {
  CHECK(json_text("plain") == "\"plain\"");
  CHECK(json_text("a \"b\" \\ c") == "\"a \\\"b\\\" \\\\ c\"");
  CHECK(json_text("line\nline\ttab") == "\"line\\u000aline\\u0009tab\"");
  CHECK(json_text("grüße 日本") == "\"grüße 日本\"");
}

TEST_CASE("bytes that are no text are escaped one by one") {
  CHECK(json_text("\xff") == "\"\\u00ff\"");
  CHECK(json_text("\xc3") == "\"\\u00c3\"");                           // cut off
  CHECK(json_text("\xc0\xaf") == "\"\\u00c0\\u00af\"");                // overlong
  CHECK(json_text("\xed\xa0\x80").find("\xed") == std::string::npos);  // a surrogate
}

TEST_CASE("numbers and lists are bare JSON") {
  Fields built;
  built.number("n", 7).integer("i", -3).real("r", 0.5).real("nan", std::numeric_limits<double>::quiet_NaN());
  built.flag("f", true).numbers("ns", {1, 2}).texts("ts", {"a", "b"});
  const auto fields = std::move(built).take();
  const std::vector<std::string> expected{"7", "-3", "0.5", "null", "true", "[1,2]", "[\"a\",\"b\"]"};
  REQUIRE(fields.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(fields[i].second == expected[i]);
}
