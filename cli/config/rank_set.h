// Purpose: parses the ranks that an option selects: "all", "none", "0", "0,4-7". Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

class RankSet {
 public:
  static Result<RankSet> parse(std::string_view text);

  // A worker without a rank yet (-1) belongs only to "all".
  bool contains(std::int64_t rank) const;
  bool all() const { return all_; }

 private:
  bool all_ = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
};

}  // namespace elastictrain::cli
