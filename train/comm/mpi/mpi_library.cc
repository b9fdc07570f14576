#include "train/comm/mpi/mpi_library.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace elastictrain::comm {
namespace {

template <class Handle>
struct Functions {
  int (*initialized)(int*);
  int (*init_thread)(int*, char***, int, int*);
  int (*query_thread)(int*);
  int (*finalize)();
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*comm_dup)(Handle, Handle*);
  int (*comm_set_errhandler)(Handle, Handle);
  int (*comm_get_attr)(Handle, int, void*, int*);
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*test)(Handle*, int*, void*);
  int (*get_count)(const void*, Handle, int*);
  int (*cancel)(Handle*);
  int (*error_string)(int, char*, int*);
  int (*library_version)(char*, int*);
};

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class T>
  void find(T*& pointer, const char* name) {
    pointer = reinterpret_cast<T*>(::dlsym(library_, name));
    if (pointer == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

template <class Handle>
void find_functions(Symbols& symbols, Functions<Handle>& mpi) {
  symbols.find(mpi.initialized, "MPI_Initialized");
  symbols.find(mpi.init_thread, "MPI_Init_thread");
  symbols.find(mpi.query_thread, "MPI_Query_thread");
  symbols.find(mpi.finalize, "MPI_Finalize");
  symbols.find(mpi.comm_rank, "MPI_Comm_rank");
  symbols.find(mpi.comm_size, "MPI_Comm_size");
  symbols.find(mpi.comm_dup, "MPI_Comm_dup");
  symbols.find(mpi.comm_set_errhandler, "MPI_Comm_set_errhandler");
  symbols.find(mpi.comm_get_attr, "MPI_Comm_get_attr");
  symbols.find(mpi.isend, "MPI_Isend");
  symbols.find(mpi.irecv, "MPI_Irecv");
  symbols.find(mpi.test, "MPI_Test");
  symbols.find(mpi.get_count, "MPI_Get_count");
  symbols.find(mpi.cancel, "MPI_Cancel");
  symbols.find(mpi.error_string, "MPI_Error_string");
  symbols.find(mpi.library_version, "MPI_Get_library_version");
}

std::string level_name(int level) {
  constexpr const char* kNames[] = {"single", "funneled", "serialized", "multiple"};
  return level >= 0 && level <= kMpiThreadMultiple ? kNames[level] : "unknown";
}

template <class Handle>
class Library final : public MpiLibrary {
 public:
  Library(const Functions<Handle>& mpi, const MpiConstants<Handle>& constants, bool is_open_mpi)
      : mpi_(mpi), constants_(constants), is_open_mpi_(is_open_mpi) {}

  std::string version() const override {
    char text[kMpiTextBytes] = {};
    int length = 0;
    if (mpi_.library_version(text, &length) != 0) return is_open_mpi_ ? "Open MPI" : "MPICH";
    const std::string all(text);
    return all.substr(0, all.find('\n'));
  }
  bool is_open_mpi() const override { return is_open_mpi_; }

  Status join() override {
    int initialized = 0;
    if (auto status = good(mpi_.initialized(&initialized), "MPI_Initialized"); !status) return status;
    if (initialized == 0) {
      if (auto status = good(mpi_.init_thread(nullptr, nullptr, kMpiThreadMultiple, &level_), "MPI_Init_thread");
          !status) {
        return status;
      }
      began_here_ = true;
    } else if (auto status = good(mpi_.query_thread(&level_), "MPI_Query_thread"); !status) {
      return status;
    }
    if (level_ < kMpiThreadSerialized) {
      return Error{ErrorCode::kUnavailable, "MPI gives thread level \"" + level_name(level_) +
                                                "\"; plans are built during training, which needs \"serialized\" or "
                                                "\"multiple\": let this library call MPI_Init, or choose backend cpu"};
    }
    return make_own_communicator();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int greatest_tag() const override { return greatest_tag_; }
  std::string thread_level() const override { return level_name(level_); }
  bool threads_may_call() const override { return level_ >= kMpiThreadMultiple; }
  bool began_here() const override { return began_here_; }

  Result<MpiRequest> send(std::span<const std::byte> bytes, int to, int tag) override {
    Handle request = constants_.no_request;
    const int code =
        mpi_.isend(bytes.data(), static_cast<int>(bytes.size()), constants_.byte, to, tag, all_ranks_, &request);
    if (auto status = good(code, "MPI_Isend"); !status) return status.error();
    return wrap(request);
  }

  Result<MpiRequest> receive(std::span<std::byte> bytes, int from, int tag) override {
    Handle request = constants_.no_request;
    const int source = from == kAnyRank ? constants_.any_source : from;
    const int code =
        mpi_.irecv(bytes.data(), static_cast<int>(bytes.size()), constants_.byte, source, tag, all_ranks_, &request);
    if (auto status = good(code, "MPI_Irecv"); !status) return status.error();
    return wrap(request);
  }

  Result<std::optional<std::size_t>> test(MpiRequest& request) override {
    Handle handle = unwrap(request);
    int done = 0;
    alignas(8) std::byte status_of_mpi[kMpiStatusBytes] = {};
    const int code = mpi_.test(&handle, &done, status_of_mpi);
    request = wrap(handle);
    if (auto status = good(code, "MPI_Test"); !status) return status.error();
    if (done == 0) return std::optional<std::size_t>();
    int count = 0;
    if (mpi_.get_count(status_of_mpi, constants_.byte, &count) != 0 || count < 0) count = 0;
    return std::optional(static_cast<std::size_t>(count));
  }

  void cancel(MpiRequest& request) override {
    Handle handle = unwrap(request);
    if (handle != constants_.no_request) (void)mpi_.cancel(&handle);
  }

  Status leave() override { return good(mpi_.finalize(), "MPI_Finalize"); }

 private:
  Status make_own_communicator() {
    (void)mpi_.comm_set_errhandler(constants_.comm_world, constants_.errors_return);
    if (auto status = good(mpi_.comm_dup(constants_.comm_world, &all_ranks_), "MPI_Comm_dup"); !status) return status;
    (void)mpi_.comm_set_errhandler(all_ranks_, constants_.errors_return);
    (void)mpi_.comm_rank(all_ranks_, &rank_);
    (void)mpi_.comm_size(all_ranks_, &size_);
    int found = 0;
    int* greatest = nullptr;
    const int code = mpi_.comm_get_attr(all_ranks_, constants_.key_of_greatest_tag, &greatest, &found);
    constexpr int kGreatestOfAnyMpi = 32767;
    greatest_tag_ = code == 0 && found != 0 && greatest != nullptr ? *greatest : kGreatestOfAnyMpi;
    return {};
  }

  Status good(int code, const char* call) const {
    if (code == 0) return {};
    char text[kMpiTextBytes] = {};
    int length = 0;
    if (mpi_.error_string(code, text, &length) != 0) std::strcpy(text, "unknown error");
    return Error{ErrorCode::kIo, std::string(call) + " failed: " + text};
  }

  static MpiRequest wrap(Handle handle) {
    MpiRequest request;
    std::memcpy(&request.handle, &handle, sizeof handle);
    return request;
  }
  static Handle unwrap(const MpiRequest& request) {
    Handle handle{};
    std::memcpy(&handle, &request.handle, sizeof handle);
    return handle;
  }

  const Functions<Handle> mpi_;
  const MpiConstants<Handle> constants_;
  const bool is_open_mpi_;
  Handle all_ranks_{};
  bool began_here_ = false;
  int level_ = 0;
  int rank_ = 0;
  int size_ = 1;
  int greatest_tag_ = 0;
};

struct Opened {
  void* library = nullptr;
  std::string name;
};

// Open MPI's plug-ins look up the library's symbols among the global ones.
constexpr int kOpenFlags = RTLD_NOW | RTLD_GLOBAL;

// If both are installed: the library of the launcher that started this process, because the other one would find a
// world of one.
std::vector<const char*> usual_names() {
  const bool of_open_mpi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  const bool of_mpich = std::getenv("PMI_SIZE") != nullptr;
  if (of_mpich && !of_open_mpi) return {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40", "libmpi.so"};
  return {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12", "libmpi.so"};
}

Result<Opened> open_library() {
  if (const char* chosen = std::getenv("ELASTICTRAIN_MPI_LIBRARY"); chosen != nullptr && *chosen != '\0') {
    if (void* library = ::dlopen(chosen, kOpenFlags)) return Opened{library, chosen};
    return Error{ErrorCode::kUnavailable,
                 std::string("ELASTICTRAIN_MPI_LIBRARY=") + chosen + " cannot be loaded: " + ::dlerror()};
  }
  if (::dlsym(RTLD_DEFAULT, "MPI_Init_thread") != nullptr) return Opened{RTLD_DEFAULT, "the program's own MPI"};
  std::string tried;
  for (const char* name : usual_names()) {
    if (void* library = ::dlopen(name, kOpenFlags)) return Opened{library, name};
    tried += tried.empty() ? name : std::string(", ") + name;
  }
  return Error{ErrorCode::kUnavailable, "no MPI library was found (tried " + tried +
                                            "); install one, or set ELASTICTRAIN_MPI_LIBRARY to its path"};
}

Error lacks(const Opened& opened, const std::string& symbol) {
  return Error{ErrorCode::kUnavailable, opened.name + " has no " + symbol + "; this is not an MPI 3 library"};
}

Result<std::unique_ptr<MpiLibrary>> bind_open_mpi(const Opened& opened) {
  Symbols symbols(opened.library);
  Functions<OpenMpiHandle> functions{};
  find_functions(symbols, functions);
  MpiConstants<OpenMpiHandle> constants;
  char* address = nullptr;
  const auto handle = [&](const char* name) {
    symbols.find(address, name);
    return static_cast<OpenMpiHandle>(address);
  };
  constants.comm_world = handle(kOpenMpiCommWorld);
  constants.byte = handle(kOpenMpiByte);
  constants.errors_return = handle(kOpenMpiErrorsReturn);
  constants.no_request = handle(kOpenMpiNoRequest);
  constants.any_source = kOpenMpiAnySource;
  constants.key_of_greatest_tag = kOpenMpiKeyOfGreatestTag;
  if (!symbols.missing().empty()) return lacks(opened, symbols.missing());
  return std::unique_ptr<MpiLibrary>(std::make_unique<Library<OpenMpiHandle>>(functions, constants, true));
}

Result<std::unique_ptr<MpiLibrary>> bind_mpich(const Opened& opened) {
  Symbols symbols(opened.library);
  Functions<MpichHandle> functions{};
  find_functions(symbols, functions);
  if (!symbols.missing().empty()) return lacks(opened, symbols.missing());
  return std::unique_ptr<MpiLibrary>(std::make_unique<Library<MpichHandle>>(functions, kMpichConstants, false));
}

}  // namespace

Result<std::unique_ptr<MpiLibrary>> MpiLibrary::open() {
  const auto opened = open_library();
  if (!opened) return opened.error();
  return ::dlsym(opened->library, kOpenMpiCommWorld) != nullptr ? bind_open_mpi(*opened) : bind_mpich(*opened);
}

}  // namespace elastictrain::comm
