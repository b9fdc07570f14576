#include "launcher/rendezvous/secret.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "supervisor/protocol/check.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kMaxSecretBytes = 4096;
constexpr const char* kPurpose = "elastictrain rendezvous 1";

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorCode::kInvalid, path + ": " + why};
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Status check_private(const std::string& path, int file) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return unusable(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return unusable(path, "is not a file");
  // A volume of secrets belongs to root and may be readable for a group of the container's.
  if ((info.st_mode & S_IRWXO) != 0) return unusable(path, "other users can read it; chmod 600 it");
  return {};
}

std::string random_text() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : transport::make_key()) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Written under another name and linked, so that no other command reads a part of it.
Status make_secret(const std::string& path) {
  std::error_code failed;
  const auto directory = std::filesystem::path(path).parent_path();
  if (std::filesystem::create_directories(directory, failed)) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, failed);
  }
  const std::string temporary = path + "." + random_text().substr(0, 16);
  const File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return unusable(temporary, std::strerror(errno));
  const std::string text = random_text() + "\n";
  const bool written = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool linked = written && (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int error = errno;
  ::unlink(temporary.c_str());
  return linked ? Status() : unusable(path, std::strerror(error));
}

}  // namespace

std::string take_secret_variable() {
  const char* set = std::getenv(kSecretVariable);
  std::string secret = set == nullptr ? "" : set;
  ::unsetenv(kSecretVariable);
  return secret;
}

Result<std::string> read_secret(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kUnavailable : ErrorCode::kInvalid;
    return Error{code, path + ": " + std::strerror(errno)};
  }
  if (const Status good = check_private(path, file.get()); !good.ok()) return good.error();
  std::string text(kMaxSecretBytes, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  if (count < 0) return unusable(path, std::strerror(errno));
  text.resize(static_cast<std::size_t>(count));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() < kMinSecretBytes) {
    return unusable(path, "a secret has at least " + std::to_string(kMinSecretBytes) +
                              " characters that nobody can guess: openssl rand -hex 32");
  }
  return text;
}

Result<std::string> read_or_make_secret(const std::string& path) {
  auto secret = read_secret(path);
  if (secret.ok() || secret.error().code != ErrorCode::kUnavailable) return secret;
  if (const Status made = make_secret(path); !made.ok()) return made.error();
  return read_secret(path);
}

transport::Key rendezvous_key(const std::string& secret, const std::string& run_name) {
  const std::string text = std::string(kPurpose) + '\0' + run_name;
  transport::Key key{};
  unsigned int length = 0;
  const auto* made = ::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(), key.data(), &length);
  ET_CHECK(made != nullptr && length == key.size(), "HMAC-SHA-256 has 32 bytes");
  return key;
}

}  // namespace elastictrain::launcher
