#include "supervisor/board_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/frame_reader.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain {
namespace {

constexpr std::size_t kSlackBytes = 16U << 20;  // of values that have been replaced

std::string frame_of(WorkerId worker, const protocol::BoardPut& put) {
  return protocol::encode_frame(protocol::AgentUp(protocol::FromWorker{worker, put}));
}

}  // namespace

BoardFile::~BoardFile() {
  close();
}

void BoardFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void BoardFile::load(Board& board) {
  std::ifstream stream(path_, std::ios::binary);
  if (!stream) return;
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  protocol::FrameReader reader(limits::kMaxFrameBytes);
  if (!reader.feed(content)) return;
  while (const auto body = reader.next()) {
    const auto message = protocol::decode_body<protocol::AgentUp>(*body);
    const auto* from = message ? std::get_if<protocol::FromWorker>(&*message) : nullptr;
    const auto* put = from == nullptr ? nullptr : std::get_if<protocol::BoardPut>(&from->message);
    if (put == nullptr) break;
    bool is_new = false;
    (void)board.put(from->worker, *put, is_new);
  }
  if (!board.entries().empty()) (void)write_anew(board);
}

void BoardFile::append(WorkerId worker, const protocol::BoardPut& put, const Board& board) {
  const std::string frame = frame_of(worker, put);
  const bool is_old = bytes_ + frame.size() > 2 * board.bytes() + kSlackBytes;
  const bool anew = descriptor_ < 0 || failing_ || is_old;
  const bool written = anew ? write_anew(board) : write(frame);
  if (written) {
    failing_ = false;
    return;
  }
  const std::string why = std::strerror(errno);
  close();
  if (std::exchange(failing_, true)) return;
  report_("the board of the run in " + path_ + " cannot be written: " + why +
          "; a supervisor that takes this run over would miss values");
}

bool BoardFile::write_anew(const Board& board) {
  close();
  const std::string fresh = path_ + ".new";
  descriptor_ = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor_ < 0) return false;
  bytes_ = 0;
  for (const auto& [key, entry] : board.entries()) {
    if (!write(frame_of(entry.writer, {entry.numbers.at(entry.writer), key, entry.value}))) return false;
  }
  return std::rename(fresh.c_str(), path_.c_str()) == 0;
}

bool BoardFile::write(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = ENOSPC;
      return false;
    }
    done += static_cast<std::size_t>(count);
  }
  bytes_ += bytes.size();
  return true;
}

void BoardFile::remove() {
  close();
  ::unlink(path_.c_str());
}

}  // namespace elastictrain
