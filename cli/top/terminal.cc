#include "cli/top/terminal.h"

#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cli/output/terminal.h"

#define NCURSES_NOMACROS 1
#include <ncursesw/curses.h>

namespace elastictrain::cli::top {
namespace {

constexpr int kEscape = 27;

enum Pair : short { kNoPair, kBluePair, kYellowPair, kGreenPair, kRedPair, kCyanPair };

attr_t attributes_of(Look look) {
  switch (look) {
    case Look::kPlain:
      return A_NORMAL;
    case Look::kBold:
      return A_BOLD;
    case Look::kWeak:
      return A_DIM;
    case Look::kReverse:
      return A_REVERSE;
    case Look::kCurve:
      return COLOR_PAIR(kCyanPair);
    case Look::kCompute:
      return COLOR_PAIR(kBluePair);
    case Look::kData:
      return COLOR_PAIR(kYellowPair);
    case Look::kCommunicate:
      return COLOR_PAIR(kGreenPair);
    case Look::kSlow:
      return COLOR_PAIR(kRedPair) | A_BOLD;
    case Look::kAsk:
      return A_REVERSE | A_BOLD;
  }
  return A_NORMAL;
}

void choose_colours() {
  const char* refused = std::getenv("NO_COLOR");
  if ((refused != nullptr && *refused != '\0') || !has_colors() || start_color() == ERR) return;
  const bool own_background = use_default_colors() == OK;
  const short back = own_background ? -1 : COLOR_BLACK;
  init_pair(kBluePair, COLOR_BLUE, back);
  init_pair(kYellowPair, COLOR_YELLOW, back);
  init_pair(kGreenPair, COLOR_GREEN, back);
  init_pair(kRedPair, COLOR_RED, back);
  init_pair(kCyanPair, COLOR_CYAN, back);
}

Key key_of(int code) {
  switch (code) {
    case 'q':
    case 'Q':
      return Key::kQuit;
    case 's':
      return Key::kSort;
    case '+':
    case '=':
      return Key::kGrow;
    case '-':
      return Key::kShrink;
    case 'r':
      return Key::kReplace;
    case 'd':
      return Key::kDrain;
    case 'u':
      return Key::kUndrain;
    case 'k':
    case KEY_UP:
      return Key::kUp;
    case 'j':
    case KEY_DOWN:
      return Key::kDown;
    case KEY_PPAGE:
      return Key::kPageUp;
    case KEY_NPAGE:
      return Key::kPageDown;
    case 'y':
    case 'Y':
    case '\n':
    case KEY_ENTER:
      return Key::kYes;
    case 'n':
    case 'N':
    case kEscape:
      return Key::kNo;
    case 'h':
    case '?':
      return Key::kHelp;
    default:
      return Key::kNone;
  }
}

}  // namespace

Result<std::unique_ptr<Terminal>> Terminal::open() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
    return Error{ErrorCode::kUnavailable, "standard input or output is no terminal"};
  }
  std::setlocale(LC_CTYPE, "");
  const char* type = std::getenv("TERM");
  if (type != nullptr && std::string_view(type) == "dumb") {
    return Error{ErrorCode::kUnavailable, "a terminal with TERM=dumb has no cursor that moves"};
  }
  SCREEN* screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 "this machine knows no terminal of the kind TERM=" + std::string(type == nullptr ? "" : type)};
  }
  return std::unique_ptr<Terminal>(new Terminal(screen));
}

Terminal::Terminal(void* screen) : screen_(screen) {
  choose_colours();
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  curs_set(0);
  set_escdelay(50);
}

Terminal::~Terminal() {
  endwin();
  delscreen(static_cast<SCREEN*>(screen_));
}

ScreenSize Terminal::size() const {
  return {static_cast<std::size_t>(LINES), static_cast<std::size_t>(COLS), locale_has_unicode()};
}

void Terminal::show(const std::vector<ScreenLine>& lines) {
  erase();
  for (std::size_t row = 0; row < lines.size(); ++row) {
    move(static_cast<int>(row), 0);
    for (const Piece& piece : lines[row]) {
      attrset(static_cast<int>(attributes_of(piece.look)));
      addstr(piece.text.c_str());
    }
  }
  attrset(A_NORMAL);
  refresh();
}

Key Terminal::read_key(std::chrono::milliseconds wait) {
  timeout(static_cast<int>(wait.count()));
  return key_of(getch());
}

}  // namespace elastictrain::cli::top
