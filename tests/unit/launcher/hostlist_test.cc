// Compressed host lists and counts, as Slurm and Flux write them.
#include "launcher/batch/hostlist.h"

#include <doctest/doctest.h>

using namespace elastictrain;
using namespace elastictrain::launcher;

namespace {

using Names = std::vector<std::string>;

Names names_of(std::string_view text) {
  const auto names = expand_hostlist(text);
  CAPTURE(text);
  REQUIRE_MESSAGE(names.ok(), names.error().message);
  return *names;
}

std::string refusal_of(std::string_view text) {
  const auto names = expand_hostlist(text);
  return names ? "" : names.error().message;
}

}  // namespace

TEST_CASE("host lists of every form become names in their order") {
  CHECK(names_of("login") == Names{"login"});
  CHECK(names_of("a,b.site.org,c") == Names{"a", "b.site.org", "c"});
  CHECK(names_of("n[1-3]") == Names{"n1", "n2", "n3"});
  CHECK(names_of("n[1-2,07,010-012]") == Names{"n1", "n2", "n07", "n010", "n011", "n012"});
  CHECK(names_of("n[098-101]") == Names{"n098", "n099", "n100", "n101"});
  CHECK(names_of("n[9-11]-ib") == Names{"n9-ib", "n10-ib", "n11-ib"});
  CHECK(names_of("r[1-2]n[0-1]") == Names{"r1n0", "r1n1", "r2n0", "r2n1"});
  CHECK(names_of("r[1-2]n[0-1]x,gpu[3],login") == Names{"r1n0x", "r1n1x", "r2n0x", "r2n1x", "gpu3", "login"});
  CHECK(names_of("n[5]") == Names{"n5"});
}

TEST_CASE("host lists that are none are refused with what is wrong") {
  CHECK(refusal_of("") == "no host in \"\"");
  CHECK(refusal_of("n[1-3") == "a bracket that is not closed in \"n[1-3\"");
  CHECK(refusal_of("n[]").find("empty brackets") == 0);
  CHECK(refusal_of("n[3-1]").find("a range that runs backwards") == 0);
  CHECK(refusal_of("n[1-x]").find("not a number of at most nine digits") == 0);
  CHECK(refusal_of("n[1,]").find("not a number") == 0);
  CHECK(refusal_of("a,,b").find("an item that is not a host name") == 0);
  CHECK(refusal_of("-oProxyCommand=x").find("an item that is not a host name") == 0);
  CHECK(refusal_of("n1]").find("an item that is not a host name") == 0);
}

TEST_CASE("lists beyond any machine are refused before they take memory") {
  CHECK(refusal_of("n[1-999999999]").find("more than 65536 hosts") != std::string::npos);
  CHECK(refusal_of("n[0-65536]").find("more than 65536 hosts") != std::string::npos);
  CHECK(names_of("n[1-65536]").size() == 65'536);
  CHECK(refusal_of("n[1-60000],m[1-60000]").find("more than 65536 hosts") != std::string::npos);
  CHECK(refusal_of("a[1-1000]b[1-1000]").find("more than 65536 hosts") != std::string::npos);
  CHECK(refusal_of("[1-65536]" + std::string(1'000'000, 'a')).find("too long for a host name") != std::string::npos);
  CHECK(refusal_of("n[1-18446744073709551616]").find("not a number of at most nine digits") == 0);
}

TEST_CASE("counts repeat what stands before the parenthesis") {
  CHECK(*expand_counts("4(x2),1") == std::vector<std::uint32_t>{4, 4, 1});
  CHECK(*expand_counts("16") == std::vector<std::uint32_t>{16});
  CHECK_FALSE(expand_counts("").ok());
  CHECK_FALSE(expand_counts("4(x2").ok());
  CHECK_FALSE(expand_counts("4(x0)").ok());
  CHECK_FALSE(expand_counts("4(x99999999)").ok());
  CHECK_FALSE(expand_counts("0").ok());
  CHECK_FALSE(expand_counts("5000").ok());
}
