// Purpose: where the files of checkpoints are: in a directory, or in a store that a client program reaches.
//
// Ownership: a Target outlives what it opens. Thread: any, one call at a time per object. Failure: Results that name
// the file and what went wrong.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::checkpoint {

// A file's bytes from its start.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const = 0;
  virtual Status read(std::span<std::byte> bytes) = 0;
};

// A new file, which appears whole or not at all. Call write() …, sync(), publish(). Without publish() nothing is left.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
  virtual Status sync() = 0;
  virtual Status publish() = 0;
};

class Target {
 public:
  struct Entry {
    std::string name;
    std::uint64_t bytes = 0;
  };

  virtual ~Target() = default;
  // For people: the place itself, or of a file in it.
  virtual const std::string& place() const = 0;
  std::string path(std::string_view name) const { return place() + "/" + std::string(name); }

  // A place that is not there is empty.
  virtual Result<std::vector<Entry>> list() = 0;
  virtual Result<std::unique_ptr<Source>> open(const std::string& name) = 0;
  // `temporary`: the name that the file may have until it is published; `bytes`: its length.
  virtual Result<std::unique_ptr<Sink>> create(const std::string& name, const std::string& temporary,
                                               std::uint64_t bytes) = 0;
  virtual void remove(const std::string& name) = 0;
  // Makes the place.
  virtual Status prepare() = 0;
  // What was published stays after a crash.
  virtual void sync() = 0;
  // Whether a file has its final name only when the next one of a pair is certain to follow. If not, data without a
  // manifest are what an interrupted writer leaves.
  virtual bool names_pairs_together() const = 0;
};

// Reads at most `max` bytes; a longer file is an error.
Result<std::vector<std::byte>> read_whole(Target& target, const std::string& name, std::size_t max);

// How a place that is no directory is reached.
struct Client {
  // "aws", "rclone" or a program (client_target.h); empty: the usual one for the place.
  std::string program;
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};  // of one call
};

// Never fails: a client that cannot be run is an error of each call.
std::unique_ptr<Target> open_target(const std::string& place, const Client& client);

}  // namespace elastictrain::checkpoint
