// Purpose: readers of the file formats of labelled rows: CIFAR-10, CSV and IDX, from bytes and a name for messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/builtin/dataset.h"

// Reads whole files as bytes, and formats errors with the position in the file. Parsers take bytes and a name
// for messages, so that tests need no files.

namespace elastictrain::train {

// A regular file that can be read and is not empty; kUnavailable otherwise.
Result<std::string> read_file(const std::string& path);

// "a.csv,b.csv" as paths.
std::vector<std::string> split_paths(std::string_view paths);

// "name:line: what"
Error error_at_line(std::string_view name, std::size_t line, std::string_view what);
// "name: offset N: what"
Error error_at_offset(std::string_view name, std::size_t offset, std::string_view what);

// Labelled rows from CIFAR-10's binary version: records of one label byte (0 to 9) and 3,072 pixel bytes.

inline constexpr std::size_t kCifar10PixelBytes = 3072;
inline constexpr std::size_t kCifar10RecordBytes = kCifar10PixelBytes + 1;

Result<LabelledRows> parse_cifar10(std::string_view bytes, std::string_view name);

// Labelled rows from comma-separated numbers; the label comes last and is a whole number from 0.
// A first line without any number is a header. Blank lines and a carriage return at the end of a line are ignored.

// `name` is the file, for messages.
Result<LabelledRows> parse_csv(std::string_view text, std::string_view name);

// Labelled rows from a pair of IDX files, the format of the MNIST family: a magic number, one big-endian size
// per dimension, then unsigned bytes. The first dimension of the images is their number; the others form a row.

struct NamedBytes {
  std::string_view bytes;
  std::string_view name;  // the file, for messages
};

Result<LabelledRows> parse_idx(NamedBytes images, NamedBytes labels);

// "train-images-idx3-ubyte" -> "train-labels-idx1-ubyte"; nullopt if the name does not contain "images".
std::optional<std::string> idx_labels_path(const std::string& images_path);

}  // namespace elastictrain::train
