// Purpose: "[NAME] VALUE": the run's name stands first, and may be left out where only one run lives.
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
