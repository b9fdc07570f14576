// Purpose: a vendor's library that is opened when it is first needed, so that one binary runs with and without it.
//
// Searched in this order: the path in the variable that overrides it, a copy that the process has loaded already (a
// framework's own), the loader's path, the usual folder of CUDA. Ownership: it stays loaded until the process ends,
// because such libraries keep threads. Thread: any. Failure: kUnavailable, with what was tried and what the loader
// said.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::device {

struct LibraryNames {
  std::string what;      // "NCCL", for messages
  std::string variable;  // ELASTICTRAIN_..._LIBRARY: a path that the user chose
  std::vector<std::string> names;
};

class SharedLibrary {
 public:
  static Result<SharedLibrary> open(const LibraryNames& names);

  // nullptr where the library does not have it.
  void* symbol(const char* name) const;
  // Where it lies.
  const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

// Fills a table of function pointers; the first missing symbol is remembered.
class SymbolLoader {
 public:
  explicit SymbolLoader(const SharedLibrary& library) : library_(library) {}

  template <class Function>
  void require(Function*& place, const char* name) {
    offer(place, name);
    if (place == nullptr && missing_.empty()) missing_ = name;
  }
  template <class Function>
  void offer(Function*& place, const char* name) {
    place = reinterpret_cast<Function*>(library_.symbol(name));
  }
  // kUnavailable if a required symbol is missing.
  Status status(const std::string& what) const;

 private:
  const SharedLibrary& library_;
  std::string missing_;
};

}  // namespace elastictrain::device
