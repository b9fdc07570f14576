#include "cli/output/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
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
  surface.redraws = surface.is_terminal && !dumb;
  surface.colours = surface.redraws && !refused;
  return surface;
}

std::size_t terminal_width(int descriptor) {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

bool clear_terminal() {
  constexpr std::string_view kHomeAndClear = "\x1b[H\x1b[2J";
  if (!surface_of(STDOUT_FILENO).redraws) return true;
  return ::write(STDOUT_FILENO, kHomeAndClear.data(), kHomeAndClear.size()) >= 0;
}

namespace {

bool ask_locale() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale == nullptr) return false;  // not installed: its letters are those of "C"
  const bool unicode = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
  ::freelocale(locale);
  return unicode;
}

}  // namespace

bool locale_has_unicode() {
  static const bool has = ask_locale();
  return has;
}

Room room_of(int descriptor) {
  Room room;
  room.unicode = locale_has_unicode();
  if (surface_of(descriptor).is_terminal) room.columns = terminal_width(descriptor);
  return room;
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
