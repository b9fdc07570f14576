// Purpose: a vendor's library that is opened when it is first needed, so that one binary runs with or without it.
//
// Search order: the path in the overriding variable, a copy that the process has already loaded (a framework's own),
// the loader's path, the usual folder of CUDA. Ownership: it stays loaded until the process ends, because such
// libraries keep threads. Thread: any. Failure: kUnavailable, with the paths that were tried and the loader's message.
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

  // nullptr if the library does not have it.
  void* symbol(const char* name) const;
  // The path of the library.
  const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

// Fills a table of function pointers and remembers the first missing symbol.
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
