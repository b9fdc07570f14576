// `elastictrain man DIRECTORY`: writes the manual pages of all commands and of the configuration below it, for
// packages. Not for users.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/man_page.h"

namespace elastictrain::cli {
namespace {

bool write_man_page(const std::filesystem::path& path, const std::string& page) {
  std::ofstream file(path);
  file << page;
  file.close();
  if (!file) std::cerr << "elastictrain man: " << path.string() << " cannot be written\n";
  return static_cast<bool>(file);
}

int write_man_pages(const std::vector<Command>& commands, const std::filesystem::path& directory) {
  const auto folder = directory / "man1";
  const auto formats = directory / "man5";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  std::filesystem::create_directories(formats, failed);
  bool good = write_man_page(folder / "elastictrain.1", man_page_of_all(commands)) &&
              write_man_page(formats / "elastictrain-config.5", man_page_of_keys());
  for (const Command& command : commands) {
    if (good && !command.group.empty()) {
      good = write_man_page(folder / ("elastictrain-" + command.name + ".1"), man_page(command));
    }
  }
  return good ? kExitSuccess : kExitCannotCreate;
}

}  // namespace

Command make_man(Invocation& invocation) {
  const auto directory = std::make_shared<std::string>();
  const auto choose = [&invocation, directory]() -> Status {
    if (directory->empty()) return wrong_usage("say where to, e.g. elastictrain man share/man");
    invocation.action = [&invocation, directory] { return write_man_pages(all_commands(invocation), *directory); };
    return {};
  };
  return {"man", "write the manual pages", "", {word("directory", "DIRECTORY", "where to", *directory)}, choose};
}

}  // namespace elastictrain::cli
