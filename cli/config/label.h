// Purpose: labels of workers' output lines, and the ranks whose output is chosen. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/protocol/result.h"

// Parses the ranks that an option selects: "all", "none", "0", "0,4-7". Pure.

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

// The prefix of a worker's output lines, from a template such as "[{host}:{rank}] ". Pure: the time is an
// argument.

struct LabelValues {
  std::string rank;  // a worker without a rank is named by its id ("w7")
  std::string local_rank;
  std::string host;
  std::string generation;
  std::string worker;
  std::string stream;  // "out" or "err"
  std::string time;    // "14:03:05.123"
  std::string pid;
};

class Label {
 public:
  // Keys: {rank} {local_rank} {host} {gen} {worker} {stream} {time} {pid}; "{{" and "}}" are literal braces.
  static Result<Label> parse(std::string_view text);

  // Ranks are padded on the left to `rank_width`, so that the lines of ranks 9 and 10 are aligned.
  std::string render(const LabelValues& values, std::size_t rank_width) const;

 private:
  struct Part {
    bool is_key = false;
    std::string text;
  };
  std::vector<Part> parts_;
};

}  // namespace elastictrain::cli
