#include "train/checkpoint/store.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <set>

#include "train/checkpoint/checksum.h"
#include "train/checkpoint/files.h"

namespace elastictrain::checkpoint {
namespace {

// Small enough that a piece is still in the cache when it is written after its checksum.
constexpr std::size_t kPieceBytes = 1 << 20;
constexpr const char* kDamaged = "it is damaged: its checksum is not the manifest's";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The files of a place by kind; names only.
struct Names {
  std::map<std::string, std::uint64_t, std::less<>> bytes;
  std::set<Identity> data;
  std::set<Identity> manifests;
  std::set<Identity> unfinished;  // the manifest was written but not renamed
  std::vector<FileName> fences;
  std::vector<std::string> temporaries;
  Generation newest = 0;
};

void sort_in(Names& names, const std::string& name) {
  const auto parsed = parse_name(name);
  if (!parsed) return;
  names.newest = std::max(names.newest, parsed->identity.generation);
  switch (parsed->kind) {
    case FileKind::kData:
      names.data.insert(parsed->identity);
      break;
    case FileKind::kManifest:
      names.manifests.insert(parsed->identity);
      break;
    case FileKind::kFence:
      names.fences.push_back(*parsed);
      break;
    case FileKind::kTemporary: {
      names.temporaries.push_back(name);
      const auto wanted = parse_name(parsed->wanted);
      if (wanted && wanted->kind == FileKind::kManifest) names.unfinished.insert(wanted->identity);
      break;
    }
  }
}

Names sorted(const std::vector<Target::Entry>& entries) {
  Names names;
  for (const auto& entry : entries) {
    sort_in(names, entry.name);
    names.bytes[entry.name] = entry.bytes;
  }
  return names;
}

std::uint64_t bytes_in(const Names& names, const std::string& name) {
  const auto found = names.bytes.find(name);
  return found == names.bytes.end() ? 0 : found->second;
}

// The same names and sizes at the same offsets. The position of an empty buffer does not matter.
bool fits(const TensorHeader& header, const state::StateBuffers& buffers) {
  std::map<std::string_view, const Tensor*> by_name;
  for (const auto& tensor : header.tensors) by_name[tensor.name] = &tensor;
  std::uint64_t offset = 0;
  for (const auto* buffer : in_file_order(buffers)) {
    const auto found = by_name.find(buffer->name);
    if (found == by_name.end() || found->second->bytes != buffer->bytes) return false;
    if (buffer->bytes != 0 && found->second->begin != offset) return false;
    offset += buffer->bytes;
  }
  return header.tensors.size() == buffers.buffers().size();
}

bool is_dead(const Writer& other, const Writer& self) {
  if (other.generation < self.generation) return true;  // fenced out, or soon to be: its files are never used
  return other.host == harmless(self.host) && ::kill(static_cast<pid_t>(other.pid), 0) != 0 && errno == ESRCH;
}

std::uint64_t element_bytes(const state::Buffer& buffer) {
  return buffer.type ? tensor_bytes(buffer.type->dtype, {}).value_or(1) : 1;
}

Status read_buffer(Source& source, const state::Buffer& buffer, Checksum& checksum, state::HostView& view) {
  for (std::uint64_t offset = 0; offset < buffer.bytes;) {
    const state::Piece piece{buffer.data + offset, std::min<std::uint64_t>(kPieceBytes, buffer.bytes - offset),
                             buffer.port};
    const auto bytes = view.to_fill(piece);
    if (auto status = source.read(bytes); !status) return status;
    checksum.add(bytes);
    if (auto status = view.written(piece, piece.bytes); !status) return status;
    offset += piece.bytes;
  }
  return {};
}

}  // namespace

std::vector<const state::Buffer*> in_file_order(const state::StateBuffers& buffers) {
  std::vector<const state::Buffer*> order;
  for (const auto& buffer : buffers.buffers()) order.push_back(&buffer);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return element_bytes(*a) > element_bytes(*b); });
  return order;
}

std::vector<Tensor> tensors_of(const state::StateBuffers& buffers) {
  std::vector<Tensor> tensors;
  for (const auto* buffer : in_file_order(buffers)) {
    if (buffer->type) {
      tensors.push_back({buffer->name, buffer->type->dtype, buffer->type->shape, buffer->bytes});
    } else {
      tensors.push_back({buffer->name, "U8", {buffer->bytes}, buffer->bytes});
    }
  }
  return tensors;
}

Result<Manifest> Store::read_manifest(const Identity& identity) const {
  const std::string name = manifest_name(identity);
  const auto text = read_whole(*target_, name, kMaxManifestBytes);
  if (!text) return text.error();
  auto manifest = parse_manifest(*text);
  if (!manifest) return Error{manifest.error().code, path(name) + ": " + manifest.error().message};
  if (manifest->identity != identity) {
    return Error{ErrorCode::kInvalid, path(name) + ": it belongs to another checkpoint"};
  }
  return manifest;
}

// A store that does not answer now holds what it held: to go on without what it has not given would be to lose it.
// Files of a directory that cannot be read are damaged.
bool Store::may_be_there(const Error& error) const {
  const bool is_damaged = error.code == ErrorCode::kInvalid || error.code == ErrorCode::kRefused;
  return !is_damaged && !target_->names_pairs_together();
}

Status Store::read_fences(Listing& listing) const {
  for (const auto& file : listing.fences) {
    const std::string name = fence_name(file.identity.generation);
    const auto text = read_whole(*target_, name, kMaxManifestBytes);
    const auto record = text ? parse_fence(*text) : Result<FenceRecord>(text.error());
    if (!record && may_be_there(record.error())) return record.error();
    if (!record) {
      listing.problems.push_back(path(name) + ": " + record.error().message);
      continue;
    }
    listing.lineage = merge(listing.lineage, record->lineage);
    listing.lineage = merge(listing.lineage, std::span(&record->fence, 1));
  }
  return {};
}

Result<Listing> Store::list(std::span<const Fence> more) const {
  const auto entries = target_->list();
  if (!entries) return entries.error();
  const Names names = sorted(*entries);
  Listing listing{.newest_generation = names.newest,
                  .any = !names.manifests.empty(),
                  .fences = names.fences,
                  .temporaries = names.temporaries};
  if (auto status = read_fences(listing); !status) return status.error();
  std::vector<Manifest> found;
  for (const auto& identity : names.manifests) {
    auto manifest = read_manifest(identity);
    if (manifest) {
      listing.newest_base = manifest->progress.generation_base;  // ascending: the last one is the newest
      listing.lineage = merge(listing.lineage, manifest->lineage);
      found.push_back(std::move(*manifest));
    } else if (may_be_there(manifest.error())) {
      return manifest.error();
    } else {
      listing.problems.push_back(manifest.error().message);
    }
  }
  for (const auto& identity : names.unfinished) {
    if (!names.manifests.contains(identity)) listing.unfinished.push_back(identity);
  }
  for (const auto& identity : names.data) {
    if (names.manifests.contains(identity) || names.unfinished.contains(identity)) continue;
    listing.problems.push_back(path(data_name(identity)) + ": it has no manifest");
    listing.orphans.push_back(identity);
    listing.any = listing.any || target_->names_pairs_together();
  }
  Lineage others(more.begin(), more.end());
  for (auto& fence : others) fence.generation += listing.newest_base;
  listing.lineage = merge(listing.lineage, others);
  for (auto& manifest : found) {
    if (is_fenced_out(manifest.identity, listing.lineage)) {
      listing.fenced_out.push_back(manifest.identity);
    } else if (bytes_in(names, data_name(manifest.identity)) != manifest.data_bytes) {
      listing.problems.push_back(path(data_name(manifest.identity)) +
                                 ": it is missing, or its size differs from the manifest");
    } else {
      listing.manifests.push_back(std::move(manifest));
    }
  }
  return listing;
}

Error Store::invalid(const Manifest& manifest, const std::string& what) const {
  return {ErrorCode::kInvalid, path(data_name(manifest.identity)) + ": " + what};
}

// The source stands behind the header then.
Result<std::unique_ptr<Source>> Store::open_data(const Manifest& manifest, std::vector<std::byte>& header) const {
  auto opened = target_->open(data_name(manifest.identity));
  if (!opened) return opened.error();
  Source& source = **opened;
  if (source.size() != manifest.data_bytes) return invalid(manifest, "its size differs from the manifest");
  header.resize(std::min<std::uint64_t>(8, source.size()));
  if (auto status = source.read(header); !status) return status.error();
  const auto length = tensor_header_length(header);
  if (!length) return invalid(manifest, length.error().message);
  if (*length > source.size()) return invalid(manifest, "it is truncated within its header");
  header.resize(*length);
  if (auto status = source.read(std::span(header).subspan(8)); !status) return status.error();
  return opened;
}

Status Store::read_data(const Manifest& manifest, const state::StateBuffers& buffers) const {
  std::vector<std::byte> header;
  const auto source = open_data(manifest, header);
  if (!source) return source.error();
  const auto parsed = parse_tensor_header(header);
  if (!parsed) return invalid(manifest, parsed.error().message);
  if (!fits(*parsed, buffers) || manifest.layout_hash != buffers.layout_hash() ||
      parsed->data_begin + parsed->data_bytes != (*source)->size()) {
    return invalid(manifest, "it has other state than this program shares; use the program that wrote it");
  }
  Checksum checksum;
  checksum.add(header);
  state::HostView view;
  for (const auto* buffer : in_file_order(buffers)) {
    if (auto status = read_buffer(**source, *buffer, checksum, view); !status) return status;
  }
  if (checksum.digits() != manifest.data_checksum) return invalid(manifest, kDamaged);
  return {};
}

Status Store::read_other(Manifest& manifest, const Adapter& adapter) const {
  std::vector<std::byte> header;
  const auto source = open_data(manifest, header);
  if (!source) return source.error();
  std::vector<std::byte> data((*source)->size() - header.size());
  Checksum checksum;
  checksum.add(header);
  for (std::size_t offset = 0; offset < data.size(); offset += kPieceBytes) {
    const auto piece = std::span(data).subspan(offset, std::min(kPieceBytes, data.size() - offset));
    if (auto status = (*source)->read(piece); !status) return status;
    checksum.add(piece);
  }
  if (checksum.digits() != manifest.data_checksum) return invalid(manifest, kDamaged);
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  if (auto status = adapter.take(manifest, text, data); !status) return invalid(manifest, status.error().message);
  return {};
}

Result<Loaded> Store::load_newest(const state::StateBuffers& buffers, std::uint64_t sample_count,
                                  std::span<const Fence> more, std::vector<std::string>& skipped,
                                  const Adapter* adapter) const {
  auto listing = list(more);
  if (!listing) return listing.error();
  skipped = listing->problems;
  for (const auto& identity : listing->fenced_out) {
    skipped.push_back(path(manifest_name(identity)) + ": a later generation continued from an earlier step");
  }
  auto& manifests = listing->manifests;
  std::sort(manifests.begin(), manifests.end(),
            [](const Manifest& a, const Manifest& b) { return a.identity > b.identity; });
  for (auto& manifest : manifests) {
    const bool is_other =
        adapter != nullptr && (manifest.layout_hash != buffers.layout_hash() || adapter->is_other(manifest));
    if (!is_other && sample_count != 0 && manifest.sample_count != 0 && manifest.sample_count != sample_count) {
      skipped.push_back(path(manifest_name(manifest.identity)) + ": its data set has " +
                        std::to_string(manifest.sample_count) + " samples, this program's " +
                        std::to_string(sample_count));
      continue;
    }
    const auto status = is_other ? read_other(manifest, *adapter) : read_data(manifest, buffers);
    if (status) return Loaded{std::move(manifest), listing->lineage, listing->newest_generation};
    if (may_be_there(status.error())) return status.error();
    skipped.push_back(status.error().message);
  }
  if (!listing->any) return Error{ErrorCode::kUnavailable, "there is no checkpoint in " + place()};
  std::string message = "none of the checkpoints in " + place() + " can be used";
  if (!skipped.empty()) message += " (" + skipped.front() + (skipped.size() > 1 ? "; …)" : ")");
  return Error{ErrorCode::kInvalid, message + ". Move them away to start from the beginning."};
}

Status Store::publish(const std::string& name, std::string_view text, const Writer& writer) const {
  auto file = target_->create(name, temporary_name(name, writer), text.size());
  if (!file) return file.error();
  if (auto status = (*file)->write(bytes_of(text)); !status) return status;
  if (auto status = (*file)->sync(); !status) return status;
  return (*file)->publish();
}

Status Store::write(Manifest manifest, std::string_view header, std::span<const std::byte> data,
                    const Writer& writer) const {
  if (auto status = target_->prepare(); !status) return status;
  const auto listing = list();
  if (!listing) return listing.error();
  if (is_fenced_out(manifest.identity, listing->lineage)) {
    return Error{ErrorCode::kRefused, "a later generation continues without this worker: no checkpoint of step " +
                                          std::to_string(manifest.identity.step) + " in " + place()};
  }
  manifest.lineage = merge(manifest.lineage, listing->lineage);
  const std::string name = data_name(manifest.identity);
  auto file = target_->create(name, temporary_name(name, writer), header.size() + data.size());
  if (!file) return file.error();
  Checksum checksum;
  const auto put = [&](std::span<const std::byte> bytes) {
    checksum.add(bytes);
    return (*file)->write(bytes);
  };
  if (auto status = put(bytes_of(header)); !status) return status;
  for (std::size_t offset = 0; offset < data.size(); offset += kPieceBytes) {
    if (auto status = put(data.subspan(offset, std::min(kPieceBytes, data.size() - offset))); !status) return status;
  }
  if (auto status = (*file)->sync(); !status) return status;
  manifest.data_bytes = header.size() + data.size();
  manifest.data_checksum = checksum.digits();
  // The manifest is on the disk before the data gets its name, so that little time passes between the two renames.
  const std::string second = manifest_name(manifest.identity);
  const std::string text = to_json(manifest);
  auto description = target_->create(second, temporary_name(second, writer), text.size());
  if (!description) return description.error();
  if (auto status = (*description)->write(bytes_of(text)); !status) return status;
  if (auto status = (*description)->sync(); !status) return status;
  if (auto status = (*file)->publish(); !status) return status;
  if (auto status = (*description)->publish(); !status) {
    remove(manifest.identity);
    return status;
  }
  target_->sync();
  return {};
}

Status Store::write_fence(FenceRecord record, const Writer& writer) const {
  if (auto status = target_->prepare(); !status) return status;
  const auto listing = list();
  if (!listing) return listing.error();
  record.lineage = merge(record.lineage, listing->lineage);
  const auto generation = record.fence.generation;
  if (auto status = publish(fence_name(generation), to_json(record), writer); !status) return status;
  target_->sync();
  // The new record contains the older ones.
  for (const auto& older : listing->fences) {
    if (older.identity.generation < generation) target_->remove(fence_name(older.identity.generation));
  }
  return {};
}

// The manifest first: data without one is not a checkpoint.
void Store::remove(const Identity& identity) const {
  target_->remove(manifest_name(identity));
  target_->remove(data_name(identity));
}

void Store::clean_up(std::size_t keep, Generation foreign, const Writer& writer) const {
  const auto listing = list();
  if (!listing) return;
  std::vector<Identity> found = listing->fenced_out;
  for (const auto& manifest : listing->manifests) found.push_back(manifest.identity);
  for (const auto& identity : removable(found, listing->lineage, keep, foreign)) remove(identity);
  remove_unfinished(*listing, writer);
}

void Store::remove_unfinished(const Listing& listing, const Writer& writer) const {
  for (const auto& name : listing.temporaries) {
    const auto parsed = parse_name(name);
    if (!parsed || !is_dead(parsed->writer, writer)) continue;
    target_->remove(name);
    const auto wanted = parse_name(parsed->wanted);
    const bool is_manifest = wanted && wanted->kind == FileKind::kManifest;
    if (is_manifest && std::count(listing.unfinished.begin(), listing.unfinished.end(), wanted->identity) != 0) {
      target_->remove(data_name(wanted->identity));
    }
  }
  if (target_->names_pairs_together()) return;
  // A generation has one writer, and this one is not writing now.
  for (const auto& identity : listing.orphans) {
    if (identity.generation <= writer.generation) target_->remove(data_name(identity));
  }
}

}  // namespace elastictrain::checkpoint
