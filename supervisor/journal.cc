#include "supervisor/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "supervisor/journal_codec.h"
#include "supervisor/protocol/check.h"

namespace elastictrain {
namespace {

constexpr off_t kTailBytes = 256 * 1024;  // searched for the last number; longer lines than this do not occur
constexpr std::string_view kSequenceKey = "{\"seq\":";

// The last number in `tail`; 0 if there is none.
std::uint64_t last_number(std::string_view tail) {
  const std::size_t found = tail.rfind(kSequenceKey);
  if (found == std::string_view::npos) return 0;
  std::uint64_t number = 0;
  std::from_chars(tail.data() + found + kSequenceKey.size(), tail.data() + tail.size(), number);
  return number;
}

// A torn line may have lost digits of its number, so the complete records before it count as well.
std::uint64_t last_sequence(std::string_view tail) {
  const std::size_t end = tail.rfind('\n');
  const std::string_view whole = end == std::string_view::npos ? std::string_view() : tail.substr(0, end);
  return std::max(last_number(whole), last_number(tail));
}

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(std::chrono::duration_cast<std::chrono::microseconds>(now)).count();
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::open(const std::string& path, Report report) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    return Error{ErrorCode::kIo, "cannot open the journal " + path + ": " + std::strerror(errno) +
                                     "; set ELASTICTRAIN_STATE_DIR to a writable directory"};
  }
  std::unique_ptr<Journal> journal(new Journal(path, descriptor, std::move(report)));
  if (Status read = journal->read_tail(); !read.ok()) return read.error();
  return journal;
}

Journal::Journal(std::string path, int descriptor, Report report)
    : path_(std::move(path)),
      descriptor_(descriptor),
      report_(std::move(report)),
      start_(std::chrono::steady_clock::now()) {}

Journal::~Journal() {
  sync();
  ::close(descriptor_);
}

Status Journal::read_tail() {
  struct stat found {};
  if (::fstat(descriptor_, &found) != 0) {
    return Error{ErrorCode::kIo, "cannot read the journal " + path_ + ": " + std::strerror(errno)};
  }
  const off_t length = std::min(found.st_size, kTailBytes);
  std::string tail(static_cast<std::size_t>(length), '\0');
  const ssize_t got = ::pread(descriptor_, tail.data(), tail.size(), found.st_size - length);
  if (got != length) return Error{ErrorCode::kIo, "cannot read the end of the journal " + path_};
  sequence_ = last_sequence(tail);
  torn_ = !tail.empty() && tail.back() != '\n';
  if (!torn_) return {};
  const std::size_t whole = tail.rfind('\n') + 1;  // 0 if there is no line end
  report_(core::Tell::Level::kWarning, "the last line of the journal " + path_ + " was cut off; it is kept");
  write(core::record::JournalTorn{tail.size() - whole}, true);
  return {};
}

void Journal::count_up_from(double up_s) {
  up_before_s_ = up_s;
}

bool Journal::write(const core::Record& record, bool with_sync) {
  const bool again = failing_;
  if (!append(line_of(record))) {
    ++lost_;
    return false;
  }
  ++sequence_;
  if (again) recovered();
  if (with_sync) sync();
  return again;
}

std::string Journal::line_of(const core::Record& record) const {
  const std::chrono::duration<double> up = std::chrono::steady_clock::now() - start_;
  return encode_journal_line(record, sequence_ + 1, unix_seconds(), up_before_s_ + up.count()) + "\n";
}

// The part of a line that a failed write leaves stays in the file; the next line begins with a line end.
bool Journal::append(const std::string& line) {
  ET_CHECK(line.find('\n') == line.size() - 1, "a record is one line");
  const std::string bytes = torn_ ? "\n" + line : line;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      failed(count < 0 ? errno : ENOSPC);
      return false;
    }
    done += static_cast<std::size_t>(count);
    torn_ = bytes[done - 1] != '\n';
  }
  return true;
}

void Journal::sync() {
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) failed(errno);
}

void Journal::failed(int error) {
  if (failing_) return;
  failing_ = true;
  report_(core::Tell::Level::kError, "the journal " + path_ + " cannot be written: " + std::strerror(error) +
                                         "; training continues, events are not recorded until there is space");
}

void Journal::recovered() {
  failing_ = false;
  const std::uint64_t missing = lost_;
  lost_ = 0;
  report_(core::Tell::Level::kWarning,
          "the journal can be written again; " + std::to_string(missing) + " records are lost");
  write(core::record::JournalGap{missing}, true);
}

}  // namespace elastictrain
