#include <doctest/doctest.h>

#include <filesystem>
#include <variant>

#include "cli/config/cluster_file.h"
#include "cli/config/load.h"
#include "cli/config/sweep_file.h"

using namespace elastictrain;
using namespace elastictrain::cli;

TEST_CASE("every config that we ship is valid") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ELASTICTRAIN_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path().string());
    const auto text = read_config_file(entry.path().string());
    REQUIRE(text.ok());
    if (entry.path().filename() == "cluster.toml") {
      const auto read = read_cluster_file(*text, "cluster.toml");
      if (const auto* error = std::get_if<ClusterFileError>(&read)) FAIL_CHECK(error->messages.front());
      continue;
    }
    if (entry.path().filename().string().starts_with("sweep")) {
      const auto read = read_sweep_file(*text, "sweep.toml");
      if (const auto* error = std::get_if<SweepFileError>(&read)) FAIL_CHECK(error->messages.front());
      continue;
    }
    ConfigInputs inputs;
    inputs.file_name = entry.path().string();
    inputs.file_text = *text;
    const auto loaded = load_config(inputs);
    if (const auto* error = std::get_if<ConfigError>(&loaded)) FAIL_CHECK(error->text());
    ++count;
  }
  CHECK(count >= 5);
}

TEST_CASE("a config file that is not there is named") {
  const auto text = read_config_file("/no/such/file.toml");
  REQUIRE(!text.ok());
  CHECK(text.error().message.find("/no/such/file.toml") != std::string::npos);
}
