// Purpose: a directory of a test, with the files that the test writes and reads there. Ownership: it is removed, with
// its content, together with the object. Errors: where it cannot be made, the constructor throws.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace elastictrain::test {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct TemporaryDirectory {
  TemporaryDirectory() : path(make()) {}
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary | std::ios::trunc) << text;
    return file(name);
  }
  // A program that /bin/sh runs.
  std::string write_script(const std::string& name, const std::string& body) const {
    const std::string script = write(name, "#!/bin/sh\n" + body + "\n");
    ::chmod(script.c_str(), 0700);
    return script;
  }

  const std::string path;

 private:
  static std::string make() {
    std::string name = (std::filesystem::temp_directory_path() / "elastictrain-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    return name;
  }
};

}  // namespace elastictrain::test
