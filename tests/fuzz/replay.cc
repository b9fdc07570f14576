// Runs a fuzz target over stored inputs, so that a fixed crash stays fixed, with any compiler, and then over random
// changes of them.
//
//   fuzz_X [--mutations N] [--seed S] [--only K] FILE|DIRECTORY…
//
// A crash or an input that takes longer than ten seconds ends the program with a line that says how to run this input
// alone: --only K.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

constexpr unsigned kLongest_s = 10;

char what_runs[512];  // for the handler of a fatal signal

void say_what_ran(int number) {
  const auto write_text = [](const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); };
  write_text(number == SIGALRM ? "\nFAILED, too slow: " : "\nFAILED: ");
  write_text(what_runs);
  write_text("\n");
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void run(const std::string& input) {
  ::alarm(kLongest_s);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  ::alarm(0);
}

struct Options {
  std::uint64_t mutations = 0;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> only;
  std::vector<std::string> paths;
};

bool read_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<Options> read_options(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    if (!word.starts_with("--")) {
      options.paths.emplace_back(word);
      continue;
    }
    std::uint64_t number = 0;
    if (++i == count || !read_number(arguments[i], number)) return std::nullopt;
    if (word == "--mutations") {
      options.mutations = number;
    } else if (word == "--seed") {
      options.seed = number;
    } else if (word == "--only") {
      options.only = number;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

std::vector<fs::path> inputs_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<std::vector<std::string>> replay(const Options& options) {
  std::vector<std::string> inputs;
  for (const std::string& given : options.paths) {
    for (const fs::path& path : inputs_of(given)) {
      std::ifstream file(path, std::ios::binary);
      if (!file) {
        std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
        return std::nullopt;
      }
      inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      std::snprintf(what_runs, sizeof what_runs, "%s", path.c_str());
      if (!options.only) run(inputs.back());
    }
  }
  return inputs;
}

void mutate(const std::vector<std::string>& inputs, const Options& options) {
  elastictrain::fuzz::Mutator mutator(inputs, options.seed);
  const std::uint64_t end = options.only ? *options.only + 1 : options.mutations;
  for (std::uint64_t number = 0; number < end; ++number) {
    const std::string input = mutator.next();
    if (options.only && number != *options.only) continue;
    std::snprintf(what_runs, sizeof what_runs, "--seed %llu --only %llu", static_cast<unsigned long long>(options.seed),
                  static_cast<unsigned long long>(number));
    run(input);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const auto options = read_options(count, arguments);
  if (!options) {
    std::fprintf(stderr, "usage: [--mutations N] [--seed S] [--only K] FILE|DIRECTORY...\n");
    return 64;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) ::signal(number, say_what_ran);
  const auto inputs = replay(*options);
  if (!inputs || inputs->empty()) return 1;
  mutate(*inputs, *options);
  std::printf("%zu inputs replayed, %llu changed ones tried\n", inputs->size(),
              static_cast<unsigned long long>(options->only ? 1 : options->mutations));
  return 0;
}
