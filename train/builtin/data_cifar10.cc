#include "train/builtin/data_cifar10.h"

#include <string>

#include "train/builtin/data_file.h"

namespace elastictrain::train {

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

}  // namespace elastictrain::train
