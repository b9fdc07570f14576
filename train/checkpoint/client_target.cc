#include "train/checkpoint/client_target.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "train/checkpoint/client_process.h"
#include "train/checkpoint/lineage.h"

namespace elastictrain::checkpoint {
namespace {

constexpr std::size_t kBufferedBytes = 1 << 20;    // a smaller file is sent when it is whole
constexpr std::size_t kMaxListBytes = 64U << 20;   // of a list
constexpr std::size_t kRememberedBytes = 4 << 20;  // of a manifest or fence; a larger one is read again

// $1: the verb, $2: where, $3: of put, the length. A bucket is listed by its API: the texts of `aws s3 ls` are for
// people. Not in a pipeline, whose status would be that of its last command: a list that failed would be empty.
constexpr const char* kAws = R"(set -eu
case $1 in
list)
  rest=${2#s3://}; bucket=${rest%%/*}; prefix=${rest#"$bucket"}; prefix=${prefix#/}; prefix=${prefix:+${prefix%/}/}
  found=$(aws s3api list-objects-v2 --bucket "$bucket" --prefix "$prefix" --delimiter / --output text \
    --query 'Contents[].[Size,Key]')
  printf '%s\n' "$found" | while read -r bytes key; do
    case $bytes in None | '') ;; *) printf '%s %s\n' "$bytes" "${key#"$prefix"}" ;; esac
  done ;;
get) exec aws s3 cp --only-show-errors "$2" - ;;
put) exec aws s3 cp --only-show-errors --expected-size "$3" - "$2" ;;
remove) exec aws s3 rm --only-show-errors "$2" ;;
esac)";

constexpr const char* kRclone = R"(set -eu
rest=${2#*://}; where=${rest%%/*}:${rest#*/}
case $1 in
list)
  rclone lsf --files-only --format sp --separator ' ' "$where" || { status=$?; [ $status = 3 ] || exit $status; } ;;
get) exec rclone cat "$where" ;;
put) exec rclone rcat --size "$3" "$where" ;;
remove) rclone deletefile "$where" || { status=$?; [ $status = 3 ] || [ $status = 4 ] || exit $status; } ;;
esac)";

// How calls begin, before their verb.
struct Program {
  std::string name;
  std::vector<std::string> words;
};

Program program_of(const std::string& place, const std::string& client) {
  const bool is_usual = client.empty();
  const auto script = [](const char* name, const char* text) { return Program{name, {"sh", "-c", text, name}}; };
  if (client == "aws" || (is_usual && place.starts_with("s3://"))) return script("aws", kAws);
  if (client == "rclone" || is_usual) return script("rclone", kRclone);
  return {client, {client}};
}

class ClientSource : public Source {
 public:
  ClientSource(std::string path, std::uint64_t size, ClientProcess process)
      : path_(std::move(path)), size_(size), process_(std::move(process)) {}

  std::uint64_t size() const override { return size_; }
  Status read(std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto got = process_.read(bytes);
      if (!got) return Error{got.error().code, path_ + ": " + got.error().message};
      if (*got == 0) return too_short();
      bytes = bytes.subspan(*got);
    }
    return {};
  }

 private:
  Error too_short() {
    const Status ended = process_.finish();
    if (!ended) return {ended.error().code, path_ + ": " + ended.error().message};
    return {ErrorCode::kInvalid, path_ + ": it is shorter than expected"};
  }

  std::string path_;
  std::uint64_t size_;
  ClientProcess process_;
};

using Bytes = std::shared_ptr<const std::vector<std::byte>>;

// What is put. `keep`, if there is one, gets the bytes once they are there.
class ClientSink : public Sink {
 public:
  ClientSink(std::string path, Program call, std::chrono::milliseconds timeout, std::function<void(Bytes)> keep)
      : path_(std::move(path)), call_(std::move(call)), timeout_(timeout), keep_(std::move(keep)) {}

  Status write(std::span<const std::byte> bytes) override {
    if (keep_) kept_.insert(kept_.end(), bytes.begin(), bytes.end());
    if (!process_ && waiting_.size() + bytes.size() < kBufferedBytes) {
      waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
      return {};
    }
    if (auto status = send_waiting(); !status) return status;
    return named(process_->write(bytes));
  }
  Status sync() override { return {}; }
  Status publish() override {
    if (auto status = send_waiting(); !status) return status;
    if (auto status = named(process_->finish()); !status) return status;
    if (keep_) keep_(std::make_shared<const std::vector<std::byte>>(std::move(kept_)));
    return {};
  }

 private:
  Status send_waiting() {
    if (process_) return {};
    auto started = ClientProcess::start(call_.name, call_.words, ClientProcess::Direction::kToClient, timeout_);
    if (!started) return named(started.error());
    process_ = std::make_unique<ClientProcess>(std::move(*started));
    const auto first = std::exchange(waiting_, {});
    return named(process_->write(first));
  }
  Status named(const Status& status) const {
    if (status) return status;
    return Error{status.error().code, path_ + ": " + status.error().message};
  }

  std::string path_;
  Program call_;
  std::chrono::milliseconds timeout_;
  std::function<void(Bytes)> keep_;
  std::vector<std::byte> kept_;
  std::vector<std::byte> waiting_;
  std::unique_ptr<ClientProcess> process_;
};

// Remembered bytes of a small file.
class MemorySource : public Source {
 public:
  explicit MemorySource(Bytes bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_->size(); }
  Status read(std::span<std::byte> bytes) override {
    if (bytes.size() > bytes_->size() - at_) return Error{ErrorCode::kInvalid, "it is shorter than expected"};
    std::copy_n(bytes_->begin() + static_cast<std::ptrdiff_t>(at_), bytes.size(), bytes.begin());
    at_ += bytes.size();
    return {};
  }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

class ClientTarget : public Target {
 public:
  ClientTarget(std::string place, Client client)
      : place_(std::move(place)), program_(program_of(place_, client.program)), timeout_(client.timeout) {}

  const std::string& place() const override { return place_; }
  Result<std::vector<Entry>> list() override;
  Result<std::unique_ptr<Source>> open(const std::string& name) override;
  Result<std::unique_ptr<Sink>> create(const std::string& name, const std::string&, std::uint64_t bytes) override;
  void remove(const std::string& name) override {
    auto process = start("remove", path(name));
    if (process) (void)process->finish();
  }
  Status prepare() override { return {}; }
  void sync() override {}
  bool names_pairs_together() const override { return false; }

 private:
  Program call(const char* verb, const std::string& where) const {
    Program call = program_;
    call.words.insert(call.words.end(), {verb, where});
    return call;
  }
  Result<ClientProcess> start(const char* verb, const std::string& where) const {
    const Program one = call(verb, where);
    auto started = ClientProcess::start(one.name, one.words, ClientProcess::Direction::kFromClient, timeout_);
    if (!started) return Error{started.error().code, where + ": " + started.error().message};
    return started;
  }

  std::string place_;
  Program program_;
  std::chrono::milliseconds timeout_;
  std::map<std::string, std::uint64_t> sizes_;  // of the last list
  std::map<std::string, Bytes> remembered_;
};

// It does not change once it is there.
bool is_final(const std::string& name) {
  const auto parsed = parse_name(name);
  return parsed && (parsed->kind == FileKind::kManifest || parsed->kind == FileKind::kFence);
}

// Nothing: it is no line of a list.
std::optional<Target::Entry> entry_of(std::string_view line) {
  Target::Entry entry;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), entry.bytes);
  const auto digits = static_cast<std::size_t>(end - line.data());
  if (error != std::errc() || digits + 1 >= line.size() || line[digits] != ' ') return std::nullopt;
  entry.name = line.substr(digits + 1);
  return entry;
}

Result<std::vector<Target::Entry>> ClientTarget::list() {
  auto process = start("list", place_);
  if (!process) return process.error();
  std::string text;
  std::vector<std::byte> piece(1 << 16);
  for (;;) {
    const auto got = process->read(piece);
    if (!got) return Error{got.error().code, place_ + ": " + got.error().message};
    if (*got == 0) break;
    text.append(reinterpret_cast<const char*>(piece.data()), *got);
    if (text.size() > kMaxListBytes) return Error{ErrorCode::kInvalid, place_ + ": its list of files is too long"};
  }
  if (auto status = process->finish(); !status) {
    return Error{status.error().code, place_ + ": " + status.error().message};
  }
  sizes_.clear();
  std::vector<Entry> entries;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty()) continue;
    auto entry = entry_of(line);
    if (!entry)
      return Error{ErrorCode::kInvalid, place_ + ": the client lists files as lines \"BYTES NAME\", not \"" +
                                            std::string(line.substr(0, 80)) + "\""};
    sizes_[entry->name] = entry->bytes;
    entries.push_back(std::move(*entry));
  }
  std::erase_if(remembered_, [this](const auto& known) {
    const auto now = sizes_.find(known.first);
    return now == sizes_.end() || now->second != known.second->size();
  });
  return entries;
}

Result<std::unique_ptr<Sink>> ClientTarget::create(const std::string& name, const std::string&, std::uint64_t bytes) {
  remembered_.erase(name);
  Program put = call("put", path(name));
  put.words.push_back(std::to_string(bytes));
  std::function<void(Bytes)> keep;
  if (bytes <= kRememberedBytes && is_final(name))
    keep = [this, name](Bytes put_there) { remembered_[name] = put_there; };
  return std::unique_ptr<Sink>(std::make_unique<ClientSink>(path(name), std::move(put), timeout_, std::move(keep)));
}

Result<std::unique_ptr<Source>> ClientTarget::open(const std::string& name) {
  if (const auto known = remembered_.find(name); known != remembered_.end()) {
    return std::unique_ptr<Source>(std::make_unique<MemorySource>(known->second));
  }
  const auto size = sizes_.find(name);
  if (size == sizes_.end()) return Error{ErrorCode::kIo, path(name) + ": it is not there"};
  auto process = start("get", path(name));
  if (!process) return process.error();
  auto source = std::make_unique<ClientSource>(path(name), size->second, std::move(*process));
  if (size->second > kRememberedBytes || !is_final(name)) return std::unique_ptr<Source>(std::move(source));
  std::vector<std::byte> bytes(size->second);
  if (auto status = source->read(bytes); !status) return status.error();
  const Bytes& kept = remembered_[name] = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return std::unique_ptr<Source>(std::make_unique<MemorySource>(kept));
}

}  // namespace

std::unique_ptr<Target> make_client_target(std::string place, Client client) {
  while (place.ends_with('/') && !place.ends_with("://")) place.pop_back();
  return std::make_unique<ClientTarget>(std::move(place), std::move(client));
}

}  // namespace elastictrain::checkpoint
