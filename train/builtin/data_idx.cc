#include "train/builtin/data_idx.h"

#include <vector>

#include "train/builtin/data_file.h"

namespace elastictrain::train {
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
