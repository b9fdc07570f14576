#include "launcher/agent/private_directory.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "launcher/agent/host_facts.h"
#include "tests/support/temporary_directory.h"

namespace fs = std::filesystem;
namespace launcher = elastictrain::launcher;
using launcher::PrivateDirectory;

namespace {

using elastictrain::test::TemporaryDirectory;

std::size_t entries(const std::string& path) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("the private directory is closed to others and goes with its owner") {
  const TemporaryDirectory base;
  {
    const auto directory = PrivateDirectory::create(base.path);
    REQUIRE(directory.ok());
    struct stat info {};
    REQUIRE(::stat(directory->path().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
    std::ofstream(directory->path() + "/left") << "x";
  }
  CHECK(entries(base.path) == 0);
}

TEST_CASE("a killed agent's directory is removed by the next agent, a living one's is not") {
  const TemporaryDirectory base;
  const auto living = PrivateDirectory::create(base.path);
  REQUIRE(living.ok());
  const pid_t agent = ::fork();
  if (agent == 0) {
    const auto own = PrivateDirectory::create(base.path);
    if (own.ok()) std::ofstream(own->path() + "/socket") << "x";
    ::_exit(own.ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(agent, &status, 0);
  REQUIRE(status == 0);
  CHECK(entries(base.path) == 2);
  const auto next = PrivateDirectory::create(base.path);
  REQUIRE(next.ok());
  CHECK(entries(base.path) == 2);
  CHECK(fs::exists(living->path()));
}

TEST_CASE("an agent ends those of its host that were launched before it, with whichever place in a group") {
  using elastictrain::mate_of;
  const TemporaryDirectory base;
  elastictrain::protocol::AgentBootstrap bootstrap;
  bootstrap.host = "b";
  const auto agent = [&](elastictrain::AgentId id) {
    const std::string path = base.path + "/elastictrain-agent-" + std::to_string(id.value);
    fs::create_directory(path);
    const pid_t child = ::fork();
    if (child == 0) {
      bootstrap.agent = id;
      launcher::write_identity(path, bootstrap);
      for (;;) ::pause();
    }
    while (!fs::exists(path + "/agent") || fs::file_size(path + "/agent") == 0) ::usleep(1000);
    return child;
  };
  const pid_t older = agent(mate_of({3}, 1));
  const pid_t newer = agent({5});
  bootstrap.agent = {4};
  CHECK(launcher::end_older_agents(base.path + "/own", bootstrap) == 1);
  const auto end_signal = [](pid_t child) {
    int status = 0;
    ::kill(child, SIGTERM);
    ::waitpid(child, &status, 0);
    return WTERMSIG(status);
  };
  CHECK(end_signal(older) == SIGKILL);
  CHECK(end_signal(newer) == SIGTERM);
}

TEST_CASE("neither links nor strangers' names are removed") {
  const TemporaryDirectory base;
  const TemporaryDirectory victim;
  std::ofstream(victim.path + "/lock") << "";
  fs::create_directory_symlink(victim.path, base.path + "/elastictrain-agent-link");
  fs::create_directory(base.path + "/other");
  std::ofstream(base.path + "/other/lock") << "";
  const auto directory = PrivateDirectory::create(base.path);
  REQUIRE(directory.ok());
  CHECK(fs::exists(victim.path + "/lock"));
  CHECK(fs::exists(base.path + "/other/lock"));
}

TEST_CASE("a base that is missing or too long for a socket gives way to /tmp") {
  for (const auto& base : {std::string("/nonexistent"), "/tmp/" + std::string(90, 'x')}) {
    const auto directory = PrivateDirectory::create(base);
    REQUIRE(directory.ok());
    CHECK(directory->path().starts_with("/tmp/elastictrain-agent-"));
  }
}

TEST_CASE("host facts are those of this machine") {
  const auto facts = launcher::host_facts();
  CHECK(facts.cores >= 1);
  CHECK(facts.memory_bytes > (1u << 20));
  CHECK(facts.wall_clock_us > 1'600'000'000'000'000);
  CHECK_FALSE(launcher::host_name().empty());
}

TEST_CASE("the addresses of an interface are numeric, and a wrong name is answered with the right ones") {
  const auto loopback = launcher::interface_addresses("lo");
  REQUIRE(loopback.ok());
  CHECK(loopback->front() == "127.0.0.1");
  const auto missing = launcher::interface_addresses("nosuch0");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().message.find("\"nosuch0\"") != std::string::npos);
  CHECK(missing.error().message.find("lo") != std::string::npos);
}
