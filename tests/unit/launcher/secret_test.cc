#include "launcher/rendezvous/secret.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace elastictrain;
using namespace elastictrain::launcher;

namespace {

const std::string kStrong = "8f3a91c07be25d4416e8a0b97f1c35d2";  // 128 bits

struct Directory {
  Directory() {
    char pattern[] = "/tmp/et-secret-XXXXXX";
    path = ::mkdtemp(pattern);
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string path;
};

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
}

}  // namespace

TEST_CASE("the first command makes the secret, the others read the same") {
  const Directory directory;
  const std::string path = directory.path + "/state/join-secret";
  const auto made = read_or_make_secret(path);
  REQUIRE(made.ok());
  CHECK(made->size() == 64);
  CHECK(read_or_make_secret(path).value() == *made);
  CHECK(read_secret(path).value() == *made);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path + "/state"), {}) == 1);
}

TEST_CASE("a secret that is missing, weak or public is refused") {
  const Directory directory;
  const std::string path = directory.path + "/secret";
  CHECK(read_secret(path).error().code == ErrorCode::kUnavailable);
  write_file(path, "0123456789abcde\n", 0600);
  CHECK(read_secret(path).error().message.find("openssl rand -hex 32") != std::string::npos);
  write_file(path, kStrong + "\n", 0644);
  CHECK(read_secret(path).error().message.find("other users can read it") != std::string::npos);
  ::chmod(path.c_str(), 0640);
  CHECK(read_secret(path).value() == kStrong);
  CHECK(read_secret(directory.path).error().code == ErrorCode::kInvalid);
}

TEST_CASE("what chance may have made is told from words, sequences and repetitions") {
  for (const char* weak : {"", "secret", "0123456789abcdef", "ffffffffffffffffffffffffffffffffffffffffffffffff",
                           "correct-horse-battery-staple", "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc",
                           "averylongpasswordforthecluster2026", "20261126221530", "aq3Zt9Lm"}) {
    CAPTURE(weak);
    CHECK(!check_secret(weak).ok());
  }
  for (const char* strong :
       {"8f3a91c07be25d4416e8a0b97f1c35d2", "b9Zq3sKf81LxTdVwYc0GhP", "J8kq2Zr7/Qm0bNfXy5TtUeWv1oHsDgLcA4iR9pKzM3E="}) {
    CAPTURE(strong);
    CHECK(check_secret(strong).ok());
  }
  CHECK(estimated_bits("8f3a91c07be25d4416e8a0b97f1c35d2") == doctest::Approx(128));
}

TEST_CASE("the secret leaves the environment") {
  ::setenv(kSecretVariable, "0123456789abcdef", 1);
  CHECK(take_secret_variable() == "0123456789abcdef");
  CHECK(::getenv(kSecretVariable) == nullptr);
  CHECK(take_secret_variable().empty());
}

TEST_CASE("the key depends on the secret and the run's name, and is neither") {
  const auto key = rendezvous_key("0123456789abcdef", "job");
  CHECK(key == rendezvous_key("0123456789abcdef", "job"));
  CHECK(key != rendezvous_key("0123456789abcdef", "job2"));
  CHECK(key != rendezvous_key("0123456789abcdeg", "job"));
  CHECK(key != transport::Key{});
}
