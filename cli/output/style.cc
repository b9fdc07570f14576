#include "cli/output/style.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>

namespace elastictrain::cli {

Surface surface_of(int descriptor) {
  Surface surface;
  surface.is_terminal = isatty(descriptor) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused = no_colour != nullptr && *no_colour != '\0';
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  surface.colours = surface.is_terminal && !refused && !dumb;
  return surface;
}

std::size_t terminal_width(int descriptor) {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

bool same_place(int descriptor, int other) {
  struct stat a {};
  struct stat b {};
  return fstat(descriptor, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
         a.st_rdev == b.st_rdev;
}

std::string coloured(std::string_view text, int colour) {
  return "\x1b[" + std::to_string(colour) + "m" + std::string(text) + "\x1b[0m";
}

int colour_of(std::uint64_t number) {
  constexpr int kColours[] = {36, 32, 35, 34, 33, 96};
  return kColours[number % std::size(kColours)];
}

}  // namespace elastictrain::cli
