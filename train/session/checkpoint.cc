#include "train/session/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "train/comm/socket.h"

namespace elastictrain::session {
namespace {

namespace fs = std::filesystem;
using comm::io_error;

constexpr std::uint64_t kMaxHeaderBytes = 16U << 20;

struct Found {
  Step step = 0;
  Generation generation = 0;
  fs::path path;
};

bool parse_name(const std::string& name, Found& found) {
  unsigned long long step = 0;
  unsigned long long generation = 0;
  int end = 0;
  const int fields = std::sscanf(name.c_str(), "step-%llu.gen-%llu.safetensors%n", &step, &generation, &end);
  found.step = step;
  found.generation = generation;
  return fields == 2 && static_cast<std::size_t>(end) == name.size();
}

// Newest first. A newer step counts more than a newer generation: a run that starts again counts generations from one.
std::vector<Found> find_checkpoints(const std::string& directory) {
  std::vector<Found> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    Found found;
    if (!parse_name(entry.path().filename().string(), found)) continue;
    found.path = entry.path();
    all.push_back(std::move(found));
  }
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return std::tie(a.step, a.generation) > std::tie(b.step, b.generation);
  });
  return all;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned char>(c));
    const bool plain = static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
    out += plain ? std::string(1, c) : std::string(escaped);
  }
  return out + '"';
}

// The metadata is the transfer header in hexadecimal: one format for the run's numbers, with its own check sum.
std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(byte));
    text += digits;
  }
  return text;
}

// Up to the first character that is no digit.
std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    const char* at = text.data() + i;
    if (std::from_chars(at, at + 2, value, 16).ptr != at + 2) break;
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

constexpr std::string_view kProgressKey = "\"elastictrain\":\"";

std::string json_header(Generation generation, const state::Progress& progress, const state::StateBuffers& buffers) {
  const state::TransferHeader numbers{.generation = generation,
                                      .layout_hash = buffers.layout_hash(),
                                      .total_bytes = buffers.total_bytes(),
                                      .progress = progress};
  std::string json = "{\"__metadata__\":{" + std::string(kProgressKey) + to_hex(state::encode_header(numbers)) +
                     "\",\"step\":\"" + std::to_string(progress.committed_step) + "\"}";
  std::uint64_t offset = 0;
  for (const auto& buffer : buffers.buffers()) {
    json += "," + json_quoted(buffer.name) + ":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(buffer.bytes) +
            "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + buffer.bytes) + "]}";
    offset += buffer.bytes;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  return json;
}

Status write_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const auto written = ::write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return io_error("write", written == 0 ? ENOSPC : errno);
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return {};
}

Status read_all(int fd, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes != 0) {
    const auto got = ::read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("read", errno);
    if (got == 0) return Error{ErrorCode::kInvalid, "the file is shorter than its header says"};
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

Status write_file(int fd, const std::string& json, const state::StateBuffers& buffers) {
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(json.size() >> (8 * i));
  if (auto status = write_all(fd, length, sizeof length); !status) return status;
  if (auto status = write_all(fd, json.data(), json.size()); !status) return status;
  for (const auto& buffer : buffers.buffers()) {
    if (auto status = write_all(fd, buffer.data, buffer.bytes); !status) return status;
  }
  if (::fsync(fd) != 0) return io_error("fsync", errno);
  return {};
}

void sync_directory(const std::string& directory) {
  const comm::Socket handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.valid()) ::fsync(handle.fd());
}

void remove_old(const std::string& directory) {
  const auto all = find_checkpoints(directory);
  for (std::size_t i = kKeptCheckpoints; i < all.size(); ++i) ::unlink(all[i].path.c_str());
}

Error in_file(const fs::path& path, const Error& error) {
  return {error.code, "checkpoint " + path.string() + ": " + error.message};
}

Result<state::Progress> load(int fd, const state::StateBuffers& buffers) {
  unsigned char length[8];
  if (auto status = read_all(fd, length, sizeof length); !status) return status.error();
  std::uint64_t json_bytes = 0;
  for (int i = 0; i < 8; ++i) json_bytes |= std::uint64_t{length[i]} << (8 * i);
  if (json_bytes > kMaxHeaderBytes) return Error{ErrorCode::kInvalid, "its header is too long to be true"};
  std::string json(json_bytes, '\0');
  if (auto status = read_all(fd, json.data(), json.size()); !status) return status.error();
  const auto at = json.find(kProgressKey);
  if (at == std::string::npos) return Error{ErrorCode::kInvalid, "it was not written by elastictrain"};
  const auto numbers = state::decode_header(from_hex(std::string_view(json).substr(at + kProgressKey.size())));
  if (!numbers) return Error{ErrorCode::kInvalid, "its header is damaged"};
  struct stat info {};
  const bool whole =
      ::fstat(fd, &info) == 0 && static_cast<std::uint64_t>(info.st_size) == 8 + json_bytes + numbers->total_bytes;
  if (!whole) return Error{ErrorCode::kInvalid, "its length is not what its header says"};
  if (numbers->layout_hash != buffers.layout_hash()) {
    return Error{ErrorCode::kInvalid, "it holds other state than this program shares; use the program that wrote it"};
  }
  for (const auto& buffer : buffers.buffers()) {
    if (auto status = read_all(fd, buffer.data, buffer.bytes); !status) return status.error();
  }
  return numbers->progress;
}

}  // namespace

Status write_checkpoint(const std::string& directory, Generation generation, const state::Progress& progress,
                        const state::StateBuffers& buffers) {
  std::error_code error;
  fs::create_directories(directory, error);
  const std::string name =
      "step-" + std::to_string(progress.committed_step) + ".gen-" + std::to_string(generation) + ".safetensors";
  const fs::path final_path = fs::path(directory) / name;
  const std::string temporary = final_path.string() + ".tmp-" + std::to_string(::getpid());
  const comm::Socket file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.valid()) return in_file(final_path, io_error("open", errno));
  Status status = write_file(file.fd(), json_header(generation, progress, buffers), buffers);
  if (status.ok() && ::rename(temporary.c_str(), final_path.c_str()) != 0) status = io_error("rename", errno);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return in_file(final_path, status.error());
  }
  sync_directory(directory);
  remove_old(directory);
  return {};
}

Result<state::Progress> load_newest_checkpoint(const std::string& directory, const state::StateBuffers& buffers) {
  const auto all = find_checkpoints(directory);
  if (all.empty()) return Error{ErrorCode::kUnavailable, "there is no checkpoint in " + directory};
  const comm::Socket file(::open(all.front().path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return in_file(all.front().path, io_error("open", errno));
  auto progress = load(file.fd(), buffers);
  if (!progress) return in_file(all.front().path, progress.error());
  return progress;
}

}  // namespace elastictrain::session
