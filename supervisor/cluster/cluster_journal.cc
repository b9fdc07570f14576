#include "supervisor/cluster/cluster_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cluster {
namespace {

constexpr std::size_t kMaxJournalLine = 64u << 20;
constexpr std::size_t kProbeBytes = 4096;  // less might fit into the last block of a full disk

bool is_blank(const std::string& line) {
  return line.find_first_not_of(' ') == std::string::npos;
}

}  // namespace

Result<std::unique_ptr<ClusterJournal>> ClusterJournal::open(const std::string& path, const Take& take,
                                                             std::function<void(const std::string&)> report) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    return Error{ErrorCode::kIo, "cannot open the journal " + path + ": " + std::strerror(errno)};
  }
  std::unique_ptr<ClusterJournal> journal(new ClusterJournal(path, descriptor, std::move(report)));
  if (Status done = journal->read(take); !done.ok()) return done.error();
  return journal;
}

ClusterJournal::~ClusterJournal() {
  sync();
  ::close(descriptor_);
}

Status ClusterJournal::each_line(const std::function<void(const std::string&)>& use, std::string& rest) const {
  std::string block(1u << 20, '\0');
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(descriptor_, block.data(), block.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{ErrorCode::kIo, "cannot read the journal " + path_ + ": " + std::strerror(errno)};
    if (got == 0) return {};
    at += got;
    rest.append(block.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', begin)) {
      use(rest.substr(begin, end - begin));
      begin = end + 1;
    }
    rest.erase(0, begin);
    if (rest.size() > kMaxJournalLine) return Error{ErrorCode::kInvalid, path_ + " is not a cluster's journal"};
  }
}

Status ClusterJournal::read(const Take& take) {
  std::string rest;
  const auto use = [&](const std::string& line) {
    bytes_ += line.size() + 1;
    take_line(line, take);
  };
  if (Status done = each_line(use, rest); !done.ok()) return done;
  torn_ = !rest.empty();
  bytes_ += rest.size();
  if (torn_) report_("the last line of the journal " + path_ + " was cut off; it is kept");
  if (unreadable_ > 0) {
    report_(protocol::counted(unreadable_, "line") + " of the journal " + path_ +
            " cannot be read, the first is line " + std::to_string(first_unreadable_) +
            ": they are left out, and the lines after them count. Runs say what they hold as they come back; look "
            "at elastictrain queue for a job that is missing");
  }
  return {};
}

void ClusterJournal::take_line(const std::string& line, const Take& take) {
  ++lines_;
  if (is_blank(line)) return;
  const auto read = read_journal_line(line, hosts_);
  if (!read) {
    if (unreadable_++ == 0) first_unreadable_ = lines_;
    return;
  }
  sequence_ = std::max(sequence_, read->sequence);
  last_up_s_ = std::max(last_up_s_, read->up_s);
  learn_hosts(read->record);
  take(read->record, last_up_s_);
}

void ClusterJournal::learn_hosts(const cluster_core::Record& record) {
  if (const auto* hosts = std::get_if<cluster_core::record::Hosts>(&record)) hosts_ = hosts->hosts;
}

void ClusterJournal::write(const cluster_core::Record& record, double unix_s, double up_s) {
  learn_hosts(record);
  std::string line = journal_line(record, hosts_, sequence_ + 1, unix_s, up_s) + "\n";
  ET_CHECK(line.find('\n') == line.size() - 1, "a record is one line");
  if (torn_) line.insert(line.begin(), '\n');
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ++lost_;
      return failed(count < 0 ? errno : ENOSPC);
    }
    done += static_cast<std::size_t>(count);
    bytes_ += static_cast<std::uint64_t>(count);
    torn_ = line[done - 1] != '\n';
  }
  ++sequence_;
  unsynced_ = true;
  works_again();
}

void ClusterJournal::works_again() {
  if (!std::exchange(failing_, false)) return;
  report_("the journal can be written again; " + std::to_string(lost_) + " records are lost");
}

bool ClusterJournal::try_again() {
  if (!failing_) return true;
  const std::string blank = "\n" + std::string(kProbeBytes, ' ') + "\n";
  const ssize_t count = ::write(descriptor_, blank.data(), blank.size());
  if (count > 0) torn_ = count != static_cast<ssize_t>(blank.size());
  if (count == static_cast<ssize_t>(blank.size())) works_again();
  return !failing_;
}

void ClusterJournal::sync() {
  if (!unsynced_) return;
  unsynced_ = false;
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) failed(errno);
}

Status ClusterJournal::shorten(const std::function<bool(const cluster_core::Record&)>& needs) {
  const std::string shorter = path_ + ".new";
  const int descriptor = ::open(shorter.c_str(), O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return Error{ErrorCode::kIo, "cannot write " + shorter + ": " + std::strerror(errno)};
  Status done = write_shorter(descriptor, needs);
  if (done.ok()) done = take_place(shorter);
  if (!done.ok()) {
    ::close(descriptor);
    ::unlink(shorter.c_str());
    return done;
  }
  ::close(std::exchange(descriptor_, descriptor));
  bytes_ = shortened_bytes_ = static_cast<std::uint64_t>(::lseek(descriptor_, 0, SEEK_END));
  torn_ = false;
  return {};
}

// Names of hosts are those that the lines before it gave, as when it is read.
Status ClusterJournal::write_shorter(int descriptor, const std::function<bool(const cluster_core::Record&)>& needs) {
  std::vector<cluster_core::HostLine> hosts;
  std::string text, last, rest;
  const auto use = [&](const std::string& line) {
    const auto read = is_blank(line) ? std::nullopt : read_journal_line(line, hosts);
    if (!read) return;
    if (const auto* named = std::get_if<cluster_core::record::Hosts>(&read->record)) hosts = named->hosts;
    const bool needed = needs(read->record);
    if (needed) text += line + "\n";
    last = needed ? "" : line;
  };
  if (Status done = each_line(use, rest); !done.ok()) return done;
  if (!last.empty()) text += last + "\n";  // says how far the cluster's clock had come
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Error{ErrorCode::kIo, path_ + ".new: " + std::strerror(count < 0 ? errno : ENOSPC)};
    written += static_cast<std::size_t>(count);
  }
  if (::fsync(descriptor) == 0) return {};
  return Error{ErrorCode::kIo, path_ + ".new: " + std::strerror(errno)};
}

// At every moment the journal's name is that of a whole one.
Status ClusterJournal::take_place(const std::string& shorter) {
  const std::filesystem::path path(path_);
  const std::string before = (path.parent_path() / (path.stem().string() + ".1" + path.extension().string())).string();
  ::unlink(before.c_str());
  const bool kept = ::link(path_.c_str(), before.c_str()) == 0;
  if (!kept || ::rename(shorter.c_str(), path_.c_str()) != 0) {
    return Error{ErrorCode::kIo, "cannot shorten the journal " + path_ + ": " + std::strerror(errno)};
  }
  const int folder = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

void ClusterJournal::failed(int error) {
  if (failing_) return;
  failing_ = true;
  report_("the journal " + path_ + " cannot be written: " + std::strerror(error) +
          "; jobs are not taken until there is space");
}

}  // namespace elastictrain::cluster
