#include "cli/output/config_reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "cli/commands/command.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"

using namespace elastictrain;
using namespace elastictrain::cli;

TEST_CASE("the committed page of configuration keys is the one that the schema gives") {
  std::ifstream file(ELASTICTRAIN_SOURCE_DIR "/cli/CONFIGURATION.md");
  const std::string committed((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  INFO("write it again with: build/release/cli/elastictrain check --reference > cli/CONFIGURATION.md");
  const bool is_current = committed == render_config_reference();
  CHECK(is_current);
}

TEST_CASE("the page has every key once, with its environment variable") {
  const std::string page = render_config_reference();
  std::set<std::string> variables;
  for (const KeySpec& key : schema()) {
    CAPTURE(key.name);
    const std::string variable = "`" + environment_name(key) + "`";
    CHECK(page.find(variable + " | ") != std::string::npos);
    CHECK(variables.insert(variable).second);
    CHECK(variable.find_first_not_of("`ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos);
  }
}

TEST_CASE("flags that the page names for several keys are flags of run, and their keys exist") {
  Invocation invocation;
  const Command run = make_run(invocation);
  for (const SharedFlag& shared : shared_flags()) {
    for (const std::string& flag : split(shared.flag, ',')) {
      CAPTURE(flag);
      CHECK(std::ranges::any_of(run.arguments, [&](const Argument& argument) {
        const auto names = split(argument.names, ',');
        return std::ranges::find(names, flag) != names.end();
      }));
    }
    for (const std::string& key : split(shared.keys, ' ')) {
      CAPTURE(key);
      CHECK(find_key(key) != nullptr);
    }
  }
}
