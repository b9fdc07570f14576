#include "launcher/process/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/process/process.h"

namespace elastictrain::launcher {
namespace {

Result<StreamEnds> open_path(const std::string& path, int flags) {
  StreamEnds stream;
  stream.child.reset(::open(path.c_str(), flags | O_CLOEXEC));
  if (stream.child.get() < 0) return system_error("cannot open " + path, errno);
  return stream;
}

Result<StreamEnds> open_stream(Stream kind, int number) {
  if (kind == Stream::kPipe) return open_pipe(number == 0);
  if (kind == Stream::kNull) return open_path("/dev/null", number == 0 ? O_RDONLY : O_WRONLY);
  StreamEnds stream;
  stream.child.reset(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  if (stream.child.get() < 0) return system_error("cannot pass on descriptor " + std::to_string(number), errno);
  return stream;
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Error system_error(const std::string& what, int error) {
  const bool out_of_files = error == EMFILE || error == ENFILE;
  return {ErrorCode::kIo,
          what + ": " + std::strerror(error) +
              (out_of_files ? "; allow more open files (ulimit -n) or fewer workers on this host" : "")};
}

Result<StreamEnds> open_pipe(bool parent_writes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe", errno);
  StreamEnds stream;
  stream.child.reset(ends[parent_writes ? 0 : 1]);
  stream.parent.reset(ends[parent_writes ? 1 : 0]);
  return stream;
}

Result<Streams> open_streams(const ProcessSpec& spec) {
  const Stream kinds[3] = {spec.standard_input, spec.standard_output, spec.standard_error};
  Streams streams;
  for (int number = 0; number < 3; ++number) {
    const bool is_file = number == 0 && !spec.input_file.empty();
    auto ends = is_file ? open_path(spec.input_file, O_RDONLY) : open_stream(kinds[number], number);
    if (!ends) return ends.error();
    streams.child[number] = std::move(ends->child);
    streams.parent[number] = std::move(ends->parent);
  }
  return streams;
}

}  // namespace elastictrain::launcher
