// Every .txt file in this directory is a scenario, whose outputs must match. `--rewrite` (or the environment variable
// ELASTICTRAIN_REWRITE_GOLDEN) rewrites them for review in the diff.
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/golden/story.h"

namespace {

namespace fs = std::filesystem;

bool rewrite_asked() {
  if (std::getenv("ELASTICTRAIN_REWRITE_GOLDEN") != nullptr) return true;
  std::ifstream arguments("/proc/self/cmdline");
  for (std::string argument; std::getline(arguments, argument, '\0');) {
    if (argument == "--rewrite") return true;
  }
  return false;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> stories() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(ELASTICTRAIN_GOLDEN_DIR)) {
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt") {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The first line that differs is more useful than two whole scenarios.
std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected);
  std::istringstream b(actual);
  std::string left;
  std::string right;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(a, left));
    const bool more_right = static_cast<bool>(std::getline(b, right));
    if (!more_left && !more_right) return "";
    if (!more_left) left = "(end)";
    if (!more_right) right = "(end)";
    if (left != right) return "line " + std::to_string(line) + "\n  written: " + left + "\n  actual:  " + right;
  }
}

}  // namespace

DOCTEST_TEST_CASE("scenarios give the outputs as written") {
  const bool rewrite = rewrite_asked();
  const auto files = stories();
  DOCTEST_REQUIRE(files.size() >= 16);
  for (const fs::path& path : files) {
    const std::string expected = read(path);
    const std::string actual = elastictrain::core::play_story(expected);
    DOCTEST_INFO(path.filename().string());
    if (rewrite) std::ofstream(path) << actual;
    if (!rewrite) DOCTEST_CHECK_MESSAGE(actual == expected, first_difference(expected, actual));
    DOCTEST_CHECK(actual.find("invariant_broken") == std::string::npos);
  }
}
