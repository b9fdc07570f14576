// Purpose: reads the whole lines of a file that another process appends to, rotates or replaces.
// Ownership: owns the open file. Thread: one. Errors: a file that cannot be read gives no lines.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace elastictrain::cli {

class FileFollower {
 public:
  // With `newest_bytes`, it begins with the first whole line within so many last bytes; 0: with the first line.
  explicit FileFollower(std::string path, std::uint64_t newest_bytes = 0);
  bool is_open() const { return stream_.is_open(); }

  // Passes on the lines since the last call, without their ends. An incomplete last line waits for its end. Another
  // file of that name is read from its beginning, after the rest of the one before.
  void read_lines(const std::function<void(std::string_view line)>& use);

 private:
  void open();
  void skip_to(std::uint64_t newest_bytes);
  bool is_replaced() const;
  void read_rest(const std::function<void(std::string_view line)>& use);

  std::string path_;
  std::ifstream stream_;
  ino_t inode_ = 0;
  std::string rest_;
};

// Reads the whole lines of a log that is renamed to `older` when it is rotated, from the oldest that is left. What is
// rotated once between two calls is read as well.
class LogFollower {
 public:
  // After a line, which tells the file from others.
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t line_bytes = 0;  // with its end
    std::uint64_t line_hash = 0;
  };

  // `older`: empty for a log that is not rotated. `from`: where another process stopped to read.
  LogFollower(std::string path, std::string older, std::optional<Place> from);

  // Passes on the lines since the last call, without their ends. `begun_anew` is called before the lines of a log that
  // has taken the place of the one that was read.
  void read_lines(const std::function<void(std::string_view line)>& use, const std::function<void()>& begun_anew);
  Place place() const;

 private:
  enum class Next { kNone, kOlder, kNewer, kAnew };
  bool open_first(const std::function<void()>& begun_anew);
  bool open(const std::string& path, const Place& from);
  Next next() const;
  void read_rest(const std::function<void(std::string_view line)>& use);

  std::string path_;
  std::string older_;
  std::optional<Place> from_;
  std::ifstream stream_;
  ino_t inode_ = 0;
  std::string rest_;
  std::string last_line_;  // with its end; empty: none since place_
  Place place_;
};

// Sleeps until a file grows.
class FileWatch {
 public:
  explicit FileWatch(const std::string& path);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // At most a quarter of a second: some file systems send no notifications.
  void wait();

 private:
  int descriptor_;
};

}  // namespace elastictrain::cli
