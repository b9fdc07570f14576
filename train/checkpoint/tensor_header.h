// Purpose: the header of a safetensors file, which other tools can read: 8 bytes of length, JSON, then the bytes of all
// tensors without gaps. Pure. Format: https://huggingface.co/docs/safetensors ; limits as in its own library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::checkpoint {

inline constexpr std::size_t kMaxTensorHeaderBytes = 100'000'000;

struct Tensor {
  std::string name;
  std::string dtype = "U8";
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;  // within the data; set only when a header was read
};

struct TensorHeader {
  std::uint64_t data_begin = 0;  // offset of the first tensor in the file
  std::uint64_t data_bytes = 0;
  std::vector<Tensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// nullopt: the format has no such dtype, or the size is beyond 64 bits.
std::optional<std::uint64_t> tensor_bytes(const std::string& dtype, std::span<const std::uint64_t> shape);

// Length, JSON and spaces that align the data. kInvalid for a name that JSON or the format cannot represent.
Result<std::string> encode_tensor_header(std::span<const Tensor> tensors,
                                         const std::map<std::string, std::string>& metadata);

// The length of the header from the first 8 bytes of the file, including these 8.
Result<std::size_t> tensor_header_length(std::span<const std::byte> prefix);
// `bytes`: the start of the file, at least as long as the header.
Result<TensorHeader> parse_tensor_header(std::span<const std::byte> bytes);

}  // namespace elastictrain::checkpoint
