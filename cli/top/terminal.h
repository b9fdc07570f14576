// Purpose: a full screen on a terminal, by ncurses: puts lines on it and reads keys. The only user of ncurses.
//
// Ownership: one at a time; the terminal is restored at its end. Thread: one. Errors: open() says why there can be no
// full screen: no terminal, or a kind of terminal that this machine does not know.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "cli/top/model.h"
#include "cli/top/screen.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli::top {

class Terminal {
 public:
  static Result<std::unique_ptr<Terminal>> open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  ScreenSize size() const;
  void show(const std::vector<ScreenLine>& lines);
  // kNone: none was pressed in that time, or the size of the terminal has changed.
  Key read_key(std::chrono::milliseconds wait);

 private:
  explicit Terminal(void* screen);
  void* screen_;  // a SCREEN
};

}  // namespace elastictrain::cli::top
