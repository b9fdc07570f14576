#include "train/checkpoint/tensor_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace elastictrain::checkpoint {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 4096;  // of the data: readers require 8, writes without the page cache more
constexpr const char* kMetadata = "__metadata__";

Error invalid(std::string what) {
  return {ErrorCode::kInvalid, std::move(what)};
}

std::optional<std::uint64_t> bits_of(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> kBits{
      {"BOOL", 8},  {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},
      {"BF16", 16}, {"I32", 32}, {"U32", 32}, {"F32", 32},    {"I64", 64},    {"U64", 64}, {"F64", 64}};
  const auto found = kBits.find(dtype);
  if (found == kBits.end()) return std::nullopt;
  return found->second;
}

std::optional<std::uint64_t> bytes_of(const Tensor& tensor) {
  return tensor_bytes(tensor.dtype, tensor.shape);
}

std::optional<std::vector<std::uint64_t>> numbers(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<std::uint64_t> values;
  for (const json& value : *found) {
    if (!value.is_number_unsigned()) return std::nullopt;
    values.push_back(value.get<std::uint64_t>());
  }
  return values;
}

Result<Tensor> read_tensor(const std::string& name, const json& entry) {
  const Error broken = invalid("its entry \"" + name + "\" is invalid");
  if (!entry.is_object()) return broken;
  const auto dtype = entry.find("dtype");
  auto shape = numbers(entry, "shape");
  const auto offsets = numbers(entry, "data_offsets");
  if (dtype == entry.end() || !dtype->is_string() || !shape || !offsets || offsets->size() != 2) return broken;
  Tensor tensor{name, dtype->get<std::string>(), std::move(*shape), 0, (*offsets)[0]};
  const auto bytes = bytes_of(tensor);
  if (!bytes || (*offsets)[1] < tensor.begin || (*offsets)[1] - tensor.begin != *bytes) return broken;
  tensor.bytes = *bytes;
  return tensor;
}

Status read_metadata(const json& entry, TensorHeader& header) {
  if (!entry.is_object()) return invalid("its metadata is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return invalid("its metadata has values that are not strings");
    header.metadata[key] = value.get<std::string>();
  }
  return {};
}

Status check_places(TensorHeader& header) {
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  for (const auto& tensor : header.tensors) {
    if (tensor.begin != header.data_bytes) return invalid("its tensors overlap or leave gaps");
    if (__builtin_add_overflow(header.data_bytes, tensor.bytes, &header.data_bytes)) {
      return invalid("its tensors are larger than the limit");
    }
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> tensor_bytes(const std::string& dtype, std::span<const std::uint64_t> shape) {
  const auto bits = bits_of(dtype);
  if (!bits) return std::nullopt;
  std::uint64_t bytes = *bits / 8;
  for (const auto length : shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return std::nullopt;
  }
  return bytes;
}

Result<std::string> encode_tensor_header(std::span<const Tensor> tensors,
                                         const std::map<std::string, std::string>& metadata) {
  json object = json::object();
  if (!metadata.empty()) object[kMetadata] = metadata;
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (tensor.name == kMetadata || object.contains(tensor.name)) {
      return invalid("state cannot be called \"" + tensor.name + "\" in a checkpoint; rename it");
    }
    if (bytes_of(tensor) != tensor.bytes) return invalid("the shape of state \"" + tensor.name + "\" is not its size");
    object[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text;
  try {
    text = object.dump();
  } catch (const json::exception&) {
    return invalid("a state's name is not UTF-8, which a checkpoint cannot hold; rename it");
  }
  text.append((kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment, ' ');
  std::string header;
  for (std::size_t i = 0; i < kLengthBytes; ++i) header += static_cast<char>(text.size() >> (8 * i));
  return header + text;
}

Result<std::size_t> tensor_header_length(std::span<const std::byte> prefix) {
  if (prefix.size() < kLengthBytes) return invalid("it is too short for a safetensors file");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  if (length > kMaxTensorHeaderBytes) return invalid("its header is longer than the limit");
  return kLengthBytes + static_cast<std::size_t>(length);
}

Result<TensorHeader> parse_tensor_header(std::span<const std::byte> bytes) {
  const auto length = tensor_header_length(bytes);
  if (!length) return length.error();
  if (*length > bytes.size()) return invalid("it is truncated within its header");
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const json object = json::parse(text + kLengthBytes, text + *length, nullptr, false);
  if (!object.is_object()) return invalid("its header is not JSON");
  TensorHeader header;
  header.data_begin = *length;
  for (const auto& [name, entry] : object.items()) {
    if (name == kMetadata) {
      if (auto status = read_metadata(entry, header); !status) return status.error();
      continue;
    }
    auto tensor = read_tensor(name, entry);
    if (!tensor) return tensor.error();
    header.tensors.push_back(std::move(*tensor));
  }
  if (auto status = check_places(header); !status) return status.error();
  return header;
}

}  // namespace elastictrain::checkpoint
