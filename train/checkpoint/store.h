// Purpose: the checkpoints of one directory, or of a place in an object store: lists them, loads the newest that
// counts, writes one, and removes those that are no longer needed. Several processes may use the place at once,
// including ones that were fenced out.
//
// Thread: any, one call at a time per object. Failure: Results. A damaged file is not an error; it is skipped with a
// message.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/lineage.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/target.h"
#include "train/checkpoint/tensor_header.h"
#include "train/state/state_buffers.h"

namespace elastictrain::checkpoint {

struct Listing {
  std::vector<Manifest> manifests;  // complete ones whose data file has the right size, not fenced out
  std::vector<Identity> fenced_out;
  Lineage lineage;                    // of all manifests and fences
  Generation newest_generation = 0;   // in any file name of the directory
  Generation newest_base = 0;         // of the newest manifest, whether it counts or not
  std::vector<std::string> problems;  // skipped files and the reasons
  bool any = false;                   // there are files that are or were a checkpoint
  std::vector<FileName> fences;
  std::vector<std::string> temporaries;
  std::vector<Identity> unfinished;  // their manifest is written and has not its name yet
  std::vector<Identity> orphans;     // data without any manifest
};

struct Loaded {
  Manifest manifest;
  Lineage lineage;
  Generation newest_generation = 0;
};

// For a program that can make its state of one that is divided otherwise.
struct Adapter {
  // Whether it is, where the layout is the same.
  std::function<bool(const Manifest&)> is_other;
  // Fills the program's buffers, and puts into the manifest what the run goes on with. `header`, `data`: of the data
  // file, whose checksum is right. An error: this checkpoint is skipped.
  std::function<Status(Manifest& manifest, std::string_view header, std::span<const std::byte> data)> take;
};

class Store {
 public:
  explicit Store(const std::string& place, const Client& client = {}) : target_(open_target(place, client)) {}
  const std::string& place() const { return target_->place(); }

  // A missing place counts as empty. `more`: fences from elsewhere, in the numbers of the newest manifest's run.
  Result<Listing> list(std::span<const Fence> more = {}) const;

  // Fills the buffers from the newest checkpoint that counts. `skipped`: one message for each newer one that was not
  // used. kUnavailable: there was never a checkpoint. kInvalid: there are some, but none can be used; the content of
  // the buffers is then undefined. kIo, kTimeout: a store does not give one that it has. `adapter`: for checkpoints of
  // another layout, of any sample count; all of such a file is in memory meanwhile.
  Result<Loaded> load_newest(const state::StateBuffers& buffers, std::uint64_t sample_count,
                             std::span<const Fence> more, std::vector<std::string>& skipped,
                             const Adapter* adapter = nullptr) const;

  // Writes both files and syncs them before either appears. `header` from encode_tensor_header(); `data`: all tensors,
  // concatenated. Completes the manifest (size, checksum). kRefused: a later generation has fenced this one out.
  Status write(Manifest manifest, std::string_view header, std::span<const std::byte> data, const Writer& writer) const;

  // Records that what older generations wrote about steps from fence.first_step on does not count.
  Status write_fence(FenceRecord record, const Writer& writer) const;

  // Removes checkpoints beyond `keep`, and unfinished files of writers that are gone or fenced out.
  void clean_up(std::size_t keep, Generation foreign, const Writer& writer) const;

 private:
  std::string path(std::string_view name) const { return target_->path(name); }
  Result<Manifest> read_manifest(const Identity& identity) const;
  Status read_fences(Listing& listing) const;
  bool may_be_there(const Error& error) const;
  Error invalid(const Manifest& manifest, const std::string& what) const;
  Result<std::unique_ptr<Source>> open_data(const Manifest& manifest, std::vector<std::byte>& header) const;
  Status read_data(const Manifest& manifest, const state::StateBuffers& buffers) const;
  Status read_other(Manifest& manifest, const Adapter& adapter) const;
  Status publish(const std::string& name, std::string_view text, const Writer& writer) const;
  void remove(const Identity& identity) const;
  void remove_unfinished(const Listing& listing, const Writer& writer) const;

  std::unique_ptr<Target> target_;
};

// In the order of the file: by the size of their elements, the largest first, so that each tensor is aligned for its
// type. Buffers of one size keep their order.
std::vector<const state::Buffer*> in_file_order(const state::StateBuffers& buffers);
// One tensor per buffer, in that order; a buffer without a type is a vector of U8.
std::vector<Tensor> tensors_of(const state::StateBuffers& buffers);

}  // namespace elastictrain::checkpoint
