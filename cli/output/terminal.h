// Purpose: the capabilities of a file descriptor. Colours only on a terminal, never with NO_COLOR set or TERM=dumb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/output/table.h"

namespace elastictrain::cli {

struct Surface {
  bool is_terminal = false;
  bool redraws = false;  // a terminal whose cursor moves
  bool colours = false;
};
Surface surface_of(int descriptor);

// Columns of the terminal, queried at each call; 80 if unknown.
std::size_t terminal_width(int descriptor);

// Before a text that is shown again and again: only a terminal whose cursor moves is cleared. False: it cannot be
// written.
bool clear_terminal();

// Whether the locale of the environment has UTF-8.
bool locale_has_unicode();

// Of a terminal its width; a pipe or file takes lines of any length.
Room room_of(int descriptor);

// Whether both refer to the same terminal, pipe or file.
bool same_place(int descriptor, int other);

std::string coloured(std::string_view text, int colour);  // an SGR number, 31 for red

// One of six colours; the same number gives the same colour.
int colour_of(std::uint64_t number);

inline constexpr int kRed = 31;
inline constexpr int kYellow = 33;
inline constexpr int kBold = 1;

}  // namespace elastictrain::cli
