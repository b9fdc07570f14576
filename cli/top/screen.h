// Purpose: draws `top`: the model as lines of a screen of any size. Pure. The terminal only puts them where they
// belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/top/model.h"

namespace elastictrain::cli::top {

enum class Look : std::uint8_t { kPlain, kBold, kWeak, kReverse, kCurve, kCompute, kData, kCommunicate, kSlow, kAsk };

struct Piece {
  std::string text;
  Look look = Look::kPlain;
};
using ScreenLine = std::vector<Piece>;

struct ScreenSize {
  std::size_t rows = 24;
  std::size_t columns = 80;
  bool unicode = true;  // false: ASCII only
};

// At most `rows` lines of at most `columns` columns.
std::vector<ScreenLine> draw(const Model& model, const ScreenSize& size);

std::string plain(const ScreenLine& line);  // without trailing spaces

}  // namespace elastictrain::cli::top
