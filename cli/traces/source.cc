#include "cli/traces/source.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

namespace elastictrain::cli {

Result<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& folder) {
  std::error_code failed;
  std::vector<std::filesystem::path> entries;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    entries.push_back(entry->path());
  }
  if (failed) return Error{ErrorCode::kNoInput, folder.string() + ": " + failed.message()};
  std::sort(entries.begin(), entries.end());
  return entries;
}

namespace {

constexpr std::size_t kTarBlock = 512;  // bytes, of the tar format
constexpr const char* kClusterJournal = "journal.jsonl";

Error unreadable(const std::string& path, const std::string& what) {
  return {ErrorCode::kInvalid, path + ": " + what};
}

Error too_long(const std::string& path) {
  return unreadable(path, "more than " + std::to_string(kMaxTraceBytes >> 20) + " MiB; split it");
}

std::string stem_of(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).filename();
  return (file.extension() == ".gz" ? file.stem() : file).stem().string();
}

// Reads plain and gzip files alike.
Result<std::string> read_expanded(const std::string& path) {
  std::error_code failed;
  const auto kind = std::filesystem::status(path, failed).type();
  if (kind == std::filesystem::file_type::none) return Error{ErrorCode::kNoInput, path + ": " + failed.message()};
  if (kind != std::filesystem::file_type::regular) return Error{ErrorCode::kNoInput, path + ": there is no such file"};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return Error{ErrorCode::kNoInput, path + ": " + std::generic_category().message(errno)};
  std::string text;
  constexpr std::size_t kStep = 1 << 20;
  for (;;) {
    const std::size_t before = text.size();
    if (before > kMaxTraceBytes) return too_long(path);
    text.resize(before + kStep);
    const int read = gzread(file.get(), text.data() + before, kStep);
    text.resize(before + static_cast<std::size_t>(std::max(read, 0)));
    int code = Z_OK;
    const char* const what = gzerror(file.get(), &code);
    if (code != Z_OK) return unreadable(path, std::string("the compressed file is cut or damaged (") + what + ")");
    if (read <= 0) return text;
  }
}

struct TarEntry {
  std::string name;
  std::size_t bytes = 0;
  bool regular = false;
};

TarEntry tar_entry(std::string_view header) {
  const auto text = [&](std::size_t from, std::size_t length) {
    const std::string_view field = header.substr(from, length);
    return std::string(field.substr(0, field.find('\0')));
  };
  TarEntry entry;
  entry.name = text(345, 155).empty() ? text(0, 100) : text(345, 155) + "/" + text(0, 100);
  entry.bytes = std::strtoull(text(124, 12).c_str(), nullptr, 8);
  entry.regular = header[156] == '0' || header[156] == '\0';
  return entry;
}

Result<std::vector<TraceText>> members(const std::string& path, const std::string& tar) {
  std::vector<TraceText> texts;
  for (std::size_t at = 0; at + kTarBlock <= tar.size() && tar[at] != '\0';) {
    const TarEntry entry = tar_entry(std::string_view(tar).substr(at, kTarBlock));
    at += kTarBlock;
    if (entry.bytes > tar.size() - at) return unreadable(path, "the archive is cut in " + entry.name);
    if (entry.regular && entry.name.ends_with(".csv")) {
      texts.push_back({path + ":" + entry.name, stem_of(entry.name), tar.substr(at, entry.bytes)});
    }
    at += (entry.bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  if (texts.empty()) return unreadable(path, "the archive has no .csv files");
  std::sort(texts.begin(), texts.end(), [](const TraceText& a, const TraceText& b) { return a.path < b.path; });
  return texts;
}

bool is_tar(const std::string& text) {
  return text.size() >= kTarBlock && text.compare(257, 5, "ustar") == 0;
}

// "traces.tar.gz:cluster01.csv" into both; the second is empty if the whole path is a file.
std::pair<std::string, std::string> split_member(const std::string& path) {
  const std::size_t colon = path.rfind(':');
  std::error_code failed;
  if (colon == std::string::npos || std::filesystem::exists(path, failed)) return {path, ""};
  return {path.substr(0, colon), path};
}

}  // namespace

Result<std::string> read_bounded(const std::string& path) {
  return read_expanded(path);
}

Result<std::vector<TraceText>> read_trace_texts(const std::string& path) {
  if (std::error_code failed; std::filesystem::is_directory(path, failed)) {
    const auto folder = std::filesystem::path(path).lexically_normal();
    const bool of_cluster = std::filesystem::exists(folder / kClusterJournal, failed);
    const std::string file = (folder / (of_cluster ? kClusterJournal : "jobs.csv")).string();
    auto text = read_expanded(file);
    if (!text.ok()) return text.error();
    const auto name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
    return std::vector<TraceText>{{file, name.string(), std::move(*text)}};
  }
  const auto [file, member] = split_member(path);
  auto text = read_expanded(file);
  if (!text.ok()) return text.error();
  if (!is_tar(*text)) return std::vector<TraceText>{{path, stem_of(path), std::move(*text)}};
  auto all = members(file, *text);
  if (!all.ok() || member.empty()) return all;
  std::erase_if(*all, [&, &wanted = member](const TraceText& one) { return one.path != wanted; });
  if (all->empty()) return Error{ErrorCode::kNoInput, member + ": the archive has no such member"};
  return all;
}

}  // namespace elastictrain::cli
