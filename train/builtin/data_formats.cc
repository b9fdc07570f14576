#include "train/builtin/data_formats.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace elastictrain::train {
namespace {

Error unavailable(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kUnavailable, path + ": " + what};
}

class OpenFile {
 public:
  // A pipe without a writer must not hold up the call.
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status read_all(int fd, const std::string& path, std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unavailable(path, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) return unavailable(path, "became shorter while it was read; do not write to it during a run");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const OpenFile file(path);
  struct stat info {};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) {
    return unavailable(path, std::string("cannot be opened: ") + std::strerror(errno) +
                                 "; the data must be at this path on every host");
  }
  if (!S_ISREG(info.st_mode)) return unavailable(path, "is not a regular file; give the path of the data file itself");
  if (info.st_size == 0) return Error{ErrorCode::kInvalid, path + ": is empty"};
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  const Status read = read_all(file.fd(), path, bytes);
  if (!read) return read.error();
  return bytes;
}

std::vector<std::string> split_paths(std::string_view paths) {
  std::vector<std::string> parts;
  while (!paths.empty()) {
    const std::size_t comma = std::min(paths.find(','), paths.size());
    if (comma > 0) parts.emplace_back(paths.substr(0, comma));
    paths.remove_prefix(std::min(comma + 1, paths.size()));
  }
  return parts;
}

Error error_at_line(std::string_view name, std::size_t line, std::string_view what) {
  return {ErrorCode::kInvalid, std::string(name) + ":" + std::to_string(line) + ": " + std::string(what)};
}

Error error_at_offset(std::string_view name, std::size_t offset, std::string_view what) {
  return {ErrorCode::kInvalid, std::string(name) + ": offset " + std::to_string(offset) + ": " + std::string(what)};
}

Result<LabelledRows> parse_cifar10(std::string_view bytes, std::string_view name) {
  const std::size_t whole = bytes.size() / kCifar10RecordBytes * kCifar10RecordBytes;
  if (bytes.empty() || whole != bytes.size()) {
    return error_at_offset(name, whole,
                           "cut off within a record; CIFAR-10 files are records of " +
                               std::to_string(kCifar10RecordBytes) + " bytes, fetch the file again");
  }
  LabelledRows rows;
  rows.features = kCifar10PixelBytes;
  rows.bytes.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kCifar10RecordBytes) {
    const auto label = static_cast<std::uint8_t>(bytes[at]);
    if (label > 9) {
      return error_at_offset(name, at,
                             "label " + std::to_string(label) + " is above 9; this is not CIFAR-10's binary version");
    }
    rows.labels.push_back(label);
    const std::string_view pixels = bytes.substr(at + 1, kCifar10PixelBytes);
    rows.bytes.insert(rows.bytes.end(), pixels.begin(), pixels.end());
  }
  return rows;
}

namespace {

constexpr float kMaxLabel = 65535;

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Returns the part up to the separator and removes both from `rest`.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

bool parse_cell(std::string_view cell, float& value) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size() && std::isfinite(value);
}

std::string shown(std::string_view cell) {
  constexpr std::size_t kShownBytes = 40;
  std::string text(cell.substr(0, kShownBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, '?');
  return "'" + text + (cell.size() > kShownBytes ? "…'" : "'");
}

// One line as numbers. A line that ends in a comma has an empty last cell.
class CsvReader {
 public:
  explicit CsvReader(std::string_view name) : name_(name) {}

  Status add_line(std::string_view line) {
    ++line_number_;
    line = trim(line);
    if (line.empty()) return {};
    if (first_line_ && is_header(line)) {
      first_line_ = false;
      return {};
    }
    first_line_ = false;
    const Status cells = parse_cells(line);
    return cells ? add_row() : cells;
  }

  Result<LabelledRows> finish() {
    if (rows_.size() == 0) return error_at_line(name_, line_number_, "this file has no row of numbers");
    return std::move(rows_);
  }

 private:
  static bool is_header(std::string_view line) {
    float ignored = 0;
    std::size_t numbers = 0;
    while (!line.empty()) numbers += parse_cell(trim(take_until(line, ',')), ignored) ? 1 : 0;
    return numbers == 0;
  }

  Status parse_cells(std::string_view line) {
    row_.clear();
    bool more = true;
    while (more) {
      more = line.find(',') != std::string_view::npos;
      const std::string_view cell = trim(take_until(line, ','));
      float value = 0;
      if (!parse_cell(cell, value)) {
        return error_at_line(name_, line_number_,
                             "cell " + std::to_string(row_.size() + 1) + " is " + shown(cell) +
                                 ", not a number; rows are numbers separated by commas, the label last");
      }
      row_.push_back(value);
    }
    return {};
  }

  Status add_row() {
    if (row_.size() < 2) return error_at_line(name_, line_number_, "a row needs at least one number and a label");
    if (rows_.size() == 0) rows_.features = row_.size() - 1;
    if (row_.size() - 1 != rows_.features) {
      return error_at_line(name_, line_number_,
                           std::to_string(row_.size()) + " cells, but the rows before have " +
                               std::to_string(rows_.features + 1) + "; the line may be cut off");
    }
    const float label = row_.back();
    if (label < 0 || label > kMaxLabel || label != std::floor(label)) {
      return error_at_line(name_, line_number_, "the label (last cell) must be a whole number from 0 to 65535");
    }
    rows_.labels.push_back(static_cast<std::uint32_t>(label));
    rows_.numbers.insert(rows_.numbers.end(), row_.begin(), row_.end() - 1);
    return {};
  }

  std::string_view name_;
  std::size_t line_number_ = 0;
  bool first_line_ = true;
  std::vector<float> row_;
  LabelledRows rows_;
};

}  // namespace

Result<LabelledRows> parse_csv(std::string_view text, std::string_view name) {
  CsvReader reader(name);
  while (!text.empty()) {
    const Status added = reader.add_line(take_until(text, '\n'));
    if (!added) return added.error();
  }
  return reader.finish();
}

namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMaxElements = std::size_t{1} << 40;

std::uint8_t byte_at(std::string_view bytes, std::size_t offset) {
  return static_cast<std::uint8_t>(bytes[offset]);
}

std::uint32_t big_endian(std::string_view bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = (value << 8) | byte_at(bytes, offset + i);
  return value;
}

struct IdxHeader {
  std::vector<std::size_t> dimensions;
  std::size_t data_offset = 0;
};

Status check_magic(NamedBytes file) {
  if (file.bytes.size() < 4) return error_at_offset(file.name, file.bytes.size(), "cut off within the magic number");
  if (byte_at(file.bytes, 0) == 0x1F && byte_at(file.bytes, 1) == 0x8B) {
    return error_at_offset(file.name, 0, "this is a gzip file; unpack it with gunzip");
  }
  if (byte_at(file.bytes, 0) != 0 || byte_at(file.bytes, 1) != 0) {
    return error_at_offset(file.name, 0, "wrong magic number; an IDX file starts with two zero bytes");
  }
  if (byte_at(file.bytes, 2) != kUnsignedByte) {
    return error_at_offset(file.name, 2, "element type is not unsigned byte (8), the only supported one");
  }
  return {};
}

Result<IdxHeader> parse_header(NamedBytes file) {
  const Status magic = check_magic(file);
  if (!magic) return magic.error();
  IdxHeader header;
  const std::size_t count = byte_at(file.bytes, 3);
  header.data_offset = 4 + 4 * count;
  if (file.bytes.size() < header.data_offset) {
    return error_at_offset(file.name, file.bytes.size(), "cut off within the sizes of the dimensions");
  }
  std::size_t elements = 1;
  for (std::size_t i = 0; i < count; ++i) {
    header.dimensions.push_back(big_endian(file.bytes, 4 + 4 * i));
    elements *= header.dimensions.back();
    if (elements == 0) return error_at_offset(file.name, 4 + 4 * i, "a dimension of size 0: there is no data");
    if (elements > kMaxElements) return error_at_offset(file.name, 4 + 4 * i, "the dimensions are too large");
  }
  const std::size_t found = file.bytes.size() - header.data_offset;
  if (found != elements) {
    return error_at_offset(file.name, file.bytes.size(),
                           "the header announces " + std::to_string(elements) + " bytes of data, but the file has " +
                               std::to_string(found) + "; the file is cut off or damaged, fetch it again");
  }
  return header;
}

Status check_shapes(const IdxHeader& image, NamedBytes images, const IdxHeader& label, NamedBytes labels) {
  if (image.dimensions.size() < 2) {
    return error_at_offset(images.name, 3, "images need two dimensions or more; is this the labels file?");
  }
  if (label.dimensions.size() != 1) {
    return error_at_offset(labels.name, 3, "labels need one dimension; is this the images file?");
  }
  if (image.dimensions[0] != label.dimensions[0]) {
    return error_at_offset(labels.name, 4,
                           std::to_string(label.dimensions[0]) + " labels for " + std::to_string(image.dimensions[0]) +
                               " images; the two files do not match");
  }
  return {};
}

void replace_last(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.rfind(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

}  // namespace

Result<LabelledRows> parse_idx(NamedBytes images, NamedBytes labels) {
  const Result<IdxHeader> image = parse_header(images);
  if (!image) return image.error();
  const Result<IdxHeader> label = parse_header(labels);
  if (!label) return label.error();
  const Status shapes = check_shapes(*image, images, *label, labels);
  if (!shapes) return shapes.error();

  LabelledRows rows;
  const std::string_view pixels = images.bytes.substr(image->data_offset);
  const std::string_view classes = labels.bytes.substr(label->data_offset);
  rows.features = pixels.size() / image->dimensions[0];
  rows.bytes.assign(pixels.begin(), pixels.end());
  for (const char c : classes) rows.labels.push_back(static_cast<std::uint8_t>(c));
  return rows;
}

std::optional<std::string> idx_labels_path(const std::string& images_path) {
  const std::size_t slash = images_path.rfind('/');
  const std::size_t name_at = slash == std::string::npos ? 0 : slash + 1;
  std::string name = images_path.substr(name_at);
  if (name.find("images") == std::string::npos) return std::nullopt;
  replace_last(name, "images", "labels");
  replace_last(name, "idx3", "idx1");
  return images_path.substr(0, name_at) + name;
}

}  // namespace elastictrain::train
