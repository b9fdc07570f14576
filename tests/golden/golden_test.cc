// Every other .txt file in this directory is a scenario, whose outputs must match. The sentences in them that a person
// reads are all in sentences.txt, by number: another wording is a change of that file alone. `--rewrite` (or the
// environment variable ELASTICTRAIN_REWRITE_GOLDEN) rewrites them for review in the diff.
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden/story.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kSentences = "sentences.txt";

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
    const bool is_other = entry.path().filename() == "CMakeLists.txt" || entry.path().filename() == kSentences;
    if (entry.path().extension() == ".txt" && !is_other) found.push_back(entry.path());
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

// A scenario's part of sentences.txt.
std::string part(const fs::path& scenario, const std::vector<std::string>& sentences) {
  std::string text = "\n## " + scenario.stem().string() + "\n\n";
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    std::string sentence = sentences[i];
    for (std::size_t at = 0; (at = sentence.find('\n', at)) != std::string::npos;) sentence.replace(at, 1, "\\n");
    text += std::to_string(i + 1) + ". " + sentence + "\n";
  }
  return text;
}

constexpr const char* kHead =
    "# Sentences of the scenarios\n\n"
    "What a person reads where a scenario has `<1>`, `<2>`, …; golden_test writes and checks this file.\n";

}  // namespace

DOCTEST_TEST_CASE("scenarios give the outputs as written") {
  const bool rewrite = rewrite_asked();
  const auto files = stories();
  DOCTEST_REQUIRE(files.size() >= 16);
  std::string all_sentences = kHead;
  for (const fs::path& path : files) {
    const std::string expected = read(path);
    std::vector<std::string> sentences;
    const std::string actual = elastictrain::core::play_story(expected, sentences);
    all_sentences += part(path, sentences);
    DOCTEST_INFO(path.filename().string());
    if (rewrite) std::ofstream(path) << actual;
    if (!rewrite) DOCTEST_CHECK_MESSAGE(actual == expected, first_difference(expected, actual));
    DOCTEST_CHECK(actual.find("invariant_broken") == std::string::npos);
  }
  const fs::path file = fs::path(ELASTICTRAIN_GOLDEN_DIR) / kSentences;
  if (rewrite) std::ofstream(file) << all_sentences;
  const std::string written = read(file);
  DOCTEST_INFO(file.filename().string());
  DOCTEST_CHECK_MESSAGE(written == all_sentences, first_difference(written, all_sentences));
}
