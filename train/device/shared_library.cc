#include "train/device/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

namespace elastictrain::device {
namespace {

constexpr const char* kUsualFolders[] = {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"};

std::string path_of(void* handle, const std::string& asked_for) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return asked_for;
  return map->l_name;
}

struct Search {
  void* handle = nullptr;
  std::string found;
  std::string complaint;  // the loader's first message

  bool attempt(const std::string& name, int flags) {
    handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    if (handle != nullptr) {
      found = path_of(handle, name);
      return true;
    }
    const char* answer = ::dlerror();
    if (flags == 0 && complaint.empty() && answer != nullptr) complaint = answer;
    return false;
  }
};

bool search_all(Search& search, const LibraryNames& names) {
  for (const std::string& name : names.names) {
    if (search.attempt(name, RTLD_NOLOAD)) return true;
  }
  for (const std::string& name : names.names) {
    if (search.attempt(name, 0)) return true;
  }
  for (const char* folder : kUsualFolders) {
    for (const std::string& name : names.names) {
      if (search.attempt(folder + name, 0)) return true;
    }
  }
  return false;
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const LibraryNames& names) {
  Search search;
  const char* chosen = std::getenv(names.variable.c_str());
  const bool is_chosen = chosen != nullptr && *chosen != '\0';
  const bool found = is_chosen ? search.attempt(chosen, 0) : search_all(search, names);
  if (!found) {
    return Error{ErrorCode::kUnavailable, names.what + " was not found (" + search.complaint + "). " +
                                              (is_chosen ? names.variable + " names a file that cannot be loaded"
                                                         : "Install it, or set " + names.variable + " to its path")};
  }
  SharedLibrary library;
  library.handle_ = search.handle;
  library.path_ = search.found;
  return library;
}

void* SharedLibrary::symbol(const char* name) const {
  return ::dlsym(handle_, name);
}

Status SymbolLoader::status(const std::string& what) const {
  if (missing_.empty()) return {};
  return Error{ErrorCode::kUnavailable,
               what + " at " + library_.path() + " has no " + missing_ + "; it is too old. Install a newer one"};
}

}  // namespace elastictrain::device
