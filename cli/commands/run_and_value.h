// Purpose: parses "[NAME] VALUE". The run's name comes first and may be omitted if only one run is live.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::cli {

struct RunAndValue {
  std::string run;
  std::string value;
};

inline RunAndValue run_and_value(const std::vector<std::string>& words) {
  return words.size() < 2 ? RunAndValue{"", words.front()} : RunAndValue{words.front(), words.back()};
}

}  // namespace elastictrain::cli
