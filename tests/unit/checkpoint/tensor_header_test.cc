#include "train/checkpoint/tensor_header.h"

#include <doctest/doctest.h>

namespace elastictrain::checkpoint {
namespace {

std::span<const std::byte> header_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string with_length(const std::string& json) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(json.size() >> (8 * i));
  return text + json;
}

TEST_CASE("a header comes back as it was written, aligned") {
  const std::vector<Tensor> tensors{
      {"layer.\"0\"", "F32", {3, 2}, 24}, {"empty", "U8", {0}, 0}, {"rest", "U8", {5}, 5}};
  const auto text = encode_tensor_header(tensors, {{"format", "test"}});
  REQUIRE(text.ok());
  CHECK(text->size() % 4096 == 0);
  const auto header = parse_tensor_header(header_bytes(*text));
  REQUIRE(header.ok());
  CHECK(header->data_begin == text->size());
  CHECK(header->data_bytes == 29);
  CHECK(header->metadata.at("format") == "test");
  REQUIRE(header->tensors.size() == 3);
  CHECK(header->tensors[0].name == "layer.\"0\"");
  CHECK(header->tensors[0].shape == std::vector<std::uint64_t>{3, 2});
  CHECK(header->tensors[2].begin == 24);
}

TEST_CASE("a name that the format cannot hold is refused") {
  CHECK_FALSE(encode_tensor_header(std::vector<Tensor>{{"__metadata__", "U8", {1}, 1}}, {}).ok());
  CHECK_FALSE(encode_tensor_header(std::vector<Tensor>{{"\xff", "U8", {1}, 1}}, {}).ok());
}

TEST_CASE("a header that is cut off, too long or no JSON is refused") {
  const auto text = *encode_tensor_header(std::vector<Tensor>{{"a", "U8", {1}, 1}}, {});
  for (std::size_t length = 0; length < text.size(); ++length) {
    CHECK_FALSE(parse_tensor_header(header_bytes(std::string_view(text).substr(0, length))).ok());
  }
  CHECK_FALSE(parse_tensor_header(header_bytes(std::string(8, '\xff'))).ok());
  CHECK_FALSE(parse_tensor_header(header_bytes(with_length("[]"))).ok());
}

TEST_CASE("entries that overlap, leave gaps, lie or overflow are refused") {
  for (const char* json :
       {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
        R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})",
        R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})",
        R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"C64","shape":[4],"data_offsets":[0,32]}})",
        R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", R"({"a":7})", R"({"__metadata__":{"a":1}})"}) {
    CAPTURE(json);
    CHECK_FALSE(parse_tensor_header(header_bytes(with_length(json))).ok());
  }
}

}  // namespace
}  // namespace elastictrain::checkpoint
