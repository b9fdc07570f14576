// Purpose: the board of a run on the disk, next to the journal, for a supervisor that takes the run over: one frame for
// each value in the order in which the values came (FromWorker with a BoardPut, codec.h). A frame that was torn is
// dropped with what follows; the worker that sent it sends it again. Written anew when most of it is out of date.
// Ownership: owns the descriptor. Thread: any one. Errors: reported once; a later supervisor would miss values.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "supervisor/board.h"

namespace elastictrain {

class BoardFile {
 public:
  using Report = std::function<void(const std::string&)>;

  // Nothing is opened before the first value.
  BoardFile(std::string path, Report report) : path_(std::move(path)), report_(std::move(report)) {}
  ~BoardFile();
  BoardFile(const BoardFile&) = delete;
  BoardFile& operator=(const BoardFile&) = delete;

  // What an earlier supervisor has left. No file: nothing.
  void load(Board& board);
  // `put` is on the board.
  void append(WorkerId worker, const protocol::BoardPut& put, const Board& board);
  void remove();

 private:
  bool write(const std::string& bytes);
  bool write_anew(const Board& board);
  void close();

  std::string path_;
  Report report_;
  int descriptor_ = -1;
  std::size_t bytes_ = 0;
  bool failing_ = false;
};

}  // namespace elastictrain
