#include "launcher/rendezvous/secret.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "supervisor/protocol/check.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kMaxSecretBytes = 4096;
constexpr double kMinBits = 128;    // who records a connection can try secrets offline
constexpr double kTolerance = 16;   // what chance may take from the estimate of 128 random bits
constexpr double kBitsInWords = 2;  // of a letter
constexpr double kBitsInRow = 1;    // of a character that continues a sequence
constexpr std::size_t kWordLength = 4;
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

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Of one character, by the kinds of characters that there are.
double bits_of_alphabet(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_digit)) return std::log2(10.0);
  if (std::all_of(text.begin(), text.end(), is_hex)) return 4;
  const bool others =
      !std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || is_lower(c) || is_upper(c); });
  const double letters = (std::any_of(text.begin(), text.end(), is_lower) ? 26 : 0) +
                         (std::any_of(text.begin(), text.end(), is_upper) ? 26 : 0);
  return std::log2(letters + (std::any_of(text.begin(), text.end(), is_digit) ? 10 : 0) + (others ? 33 : 0));
}

// What the text repeats counts once.
std::string_view without_repetition(std::string_view text) {
  for (std::size_t period = 1; period <= text.size() / 2; ++period) {
    if (text.substr(period) == text.substr(0, text.size() - period)) return text.substr(0, period);
  }
  return text;
}

// "aaaa", "3456", "fedc".
bool continues_row(std::string_view text, std::size_t place) {
  if (place < 2) return false;
  const int step = text[place] - text[place - 1];
  return step >= -1 && step <= 1 && text[place - 1] - text[place - 2] == step;
}

// The length of the letters of one case around a place. Random text of letters of both cases and digits has few long
// ones.
std::size_t word_length(std::string_view text, std::size_t place) {
  const auto same = is_lower(text[place]) ? is_lower : is_upper;
  if (!same(text[place])) return 0;
  std::size_t first = place;
  std::size_t end = place;
  while (first > 0 && same(text[first - 1])) --first;
  while (end < text.size() && same(text[end])) ++end;
  return end - first;
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

double estimated_bits(std::string_view secret) {
  const std::string_view text = without_repetition(secret.substr(0, kMaxSecretBytes));
  if (text.empty()) return 0;
  const double each = bits_of_alphabet(text);
  const bool may_have_words = !std::all_of(text.begin(), text.end(), is_hex);
  double bits = 0;
  for (std::size_t place = 0; place < text.size(); ++place) {
    const bool in_word = may_have_words && word_length(text, place) >= kWordLength;
    bits += continues_row(text, place) ? kBitsInRow : in_word ? kBitsInWords : each;
  }
  return bits;
}

Status check_secret(const std::string& secret) {
  if (estimated_bits(secret) >= kMinBits - kTolerance) return {};
  return Error{ErrorCode::kInvalid,
               "the secret is weak: whoever records one connection can try words and short texts without end; it needs "
               "128 bits of chance, which this makes: openssl rand -hex 32"};
}

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
  if (const Status strong = check_secret(text); !strong.ok()) return unusable(path, strong.error().message);
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
