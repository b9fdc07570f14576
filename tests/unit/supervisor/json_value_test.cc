#include "supervisor/protocol/json_text.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

using namespace elastictrain;

TEST_CASE("texts become JSON strings whatever they hold") {
  CHECK(quoted_json("plain") == "\"plain\"");
  CHECK(quoted_json("a \"b\" \\ c") == "\"a \\\"b\\\" \\\\ c\"");
  CHECK(quoted_json("line\nline\ttab") == "\"line\\u000aline\\u0009tab\"");
  CHECK(quoted_json("grüße 日本") == "\"grüße 日本\"");
}

TEST_CASE("bytes that are no text are escaped one by one") {
  CHECK(quoted_json("\xff") == "\"\\u00ff\"");
  CHECK(quoted_json("\xc3") == "\"\\u00c3\"");                           // cut off
  CHECK(quoted_json("\xc0\xaf") == "\"\\u00c0\\u00af\"");                // overlong
  CHECK(quoted_json("\xed\xa0\x80").find("\xed") == std::string::npos);  // a surrogate
}

TEST_CASE("numbers and lists are bare JSON") {
  CHECK(real_json(0.5) == "0.5");
  CHECK(real_json(std::numeric_limits<double>::quiet_NaN()) == "null");
  CHECK(list_json(std::vector<int>{1, 2}, [](int v) { return std::to_string(v); }) == "[1,2]");
  CHECK(list_json(std::vector<std::string>{"a", "b"}, quoted_json) == "[\"a\",\"b\"]");
}
