// A config file with any content: accepted, or refused with messages that name the place.
#include <cstdint>
#include <string>
#include <variant>

#include "cli/config/load.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace elastictrain;
  cli::ConfigInputs inputs;
  inputs.file_name = "job.toml";
  inputs.file_text = std::string(reinterpret_cast<const char*>(data), size);
  const auto loaded = cli::load_config(inputs);
  if (const auto* error = std::get_if<cli::ConfigError>(&loaded)) {
    fuzz::check(!error->messages.empty() && !error->text().empty(), "a config is refused without a word");
    return 0;
  }
  const auto& config = std::get<cli::LoadedConfig>(loaded);
  for (const auto& [key, origin] : config.origins) {
    fuzz::check(config.where(key) == origin.where, "the place of a key is lost");
  }
  return 0;
}
