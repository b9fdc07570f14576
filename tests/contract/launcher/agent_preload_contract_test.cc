// Workers that a fork server of their host starts: what they are, what they inherit, and what happens without it.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent_lab.h"

using namespace elastictrain;
using namespace elastictrain::testing;

namespace {

constexpr WorkerId kOther{4};

// The module writes a line each time that it is imported by a process.
constexpr const char* kModule = R"(import os
open(os.path.join(os.path.dirname(__file__), "imports"), "a").write(f"{os.getpid()}\n")
)";

struct Preload {
  explicit Preload(const std::string& module = kModule, std::uint64_t timeout_ms = 30'000)
      : lab([&](AgentBootstrap& bootstrap) {
          bootstrap.preload = {"preloaded"};
          bootstrap.preload_timeout_ms = timeout_ms;
          bootstrap.grace_ms = 2'000;
        }) {
    write("preloaded.py", module);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder.path + "/" + name) << text;
  }

  std::string read(const std::string& name) const {
    std::ifstream file(folder.path + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void spawn(std::vector<std::string> program, WorkerId worker = kWorker, std::vector<std::string> variables = {}) {
    variables.push_back("PYTHONPATH=" + std::string(PYTHON_PACKAGE) + ":" + folder.path);
    variables.emplace_back("PYTHONDONTWRITEBYTECODE=1");
    program.insert(program.begin(), {"python3", "-u"});
    lab.supervisor.send(0, SpawnWorker{worker, 0, std::move(program), std::move(variables), folder.path});
  }

  void script(const std::string& text, WorkerId worker = kWorker, std::vector<std::string> variables = {}) {
    write("script.py", text);
    spawn({"script.py", "one", "two"}, worker, std::move(variables));
  }

  bool prints(const std::string& part, WorkerId worker = kWorker, bool is_stderr = false) {
    return lab.supervisor.await_line(0, worker, part, is_stderr);
  }

  std::int64_t pid(WorkerId worker = kWorker) {
    std::int64_t found = 0;
    REQUIRE(lab.supervisor.pump([&] {
      for (const auto& one : lab.supervisor.all<WorkerSpawned>(0)) found = one.worker == worker ? one.pid : found;
      return found != 0;
    }));
    return found;
  }

  TemporaryDirectory folder;
  Lab lab;
};

constexpr const char* kWaits = "import time\nprint('waits', flush=True)\ntime.sleep(600)\n";

std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a worker is a child of its agent that has the module, and all else as if its interpreter had been started") {
  Preload lab;
  lab.script(R"(import os, sys, preloaded
print("argv", sys.argv, __name__, __file__, sys.path[0])
print("where", os.getcwd(), os.environ["OWN"], os.environ["ELASTICTRAIN_WORKER_ID"], "MODULE" in os.environ)
print("group", os.getpgid(0) == os.getpid(), os.getpid())
print("parent", os.getppid())
print("stdin", sys.stdin.read() == "")
print("bytes", os.environb[b"ODD"].hex())
print("said", file=sys.stderr)
sys.exit(3)
)",
             kWorker, {"OWN=value", "ODD=\xff\n"});
  CHECK(lab.lab.await_exit().exit_code == 3);
  const std::string folder = lab.folder.path;
  CHECK(lab.prints("argv ['script.py', 'one', 'two'] __main__ " + folder + "/script.py " + folder));
  CHECK(lab.prints("where " + folder + " value " + std::to_string(kWorker.value) + " False"));
  CHECK(lab.prints("group True " + std::to_string(lab.pid())));
  CHECK(lab.prints("parent " + std::to_string(lab.lab.supervisor.all<AgentHello>(0).at(0).pid)));
  CHECK(lab.prints("stdin True"));
  CHECK(lab.prints("bytes ff0a"));
  CHECK(lab.prints("said", kWorker, true));

  lab.script("print('second')\n", kOther);
  CHECK(lab.lab.await_exit(kOther).exit_code == 0);
  CHECK(count_lines(lab.read("imports")) == 1);
}

TEST_CASE("a module runs as the interpreter would run it, and what fails says and ends as it would") {
  Preload lab;
  lab.write("program.py", "import sys\nprint('module', __name__, __spec__.name, sys.argv[1:])\n");
  lab.spawn({"-m", "program", "x"});
  CHECK(lab.lab.await_exit().exit_code == 0);
  CHECK(lab.prints("module __main__ program ['x']"));

  lab.script("def inner():\n    raise ValueError('of the script')\ninner()\n", kOther);
  const WorkerExited failed = lab.lab.await_exit(kOther);
  CHECK(failed.exit_code == 1);
  const auto lines = lab.lab.supervisor.lines(0, kOther, true);
  REQUIRE(lines.size() >= 3);
  CHECK(lines.at(0) == "Traceback (most recent call last):");
  CHECK(lines.at(1) == "  File \"" + lab.folder.path + "/script.py\", line 3, in <module>");
  CHECK(lines.back() == "ValueError: of the script");

  const WorkerId missing{5};
  lab.spawn({"nowhere.py"}, missing);
  CHECK(lab.lab.await_exit(missing).exit_code == 2);
  CHECK(lab.prints("can't open file", missing, true));
}

TEST_CASE("a worker may start processes by each method of multiprocessing") {
  Preload lab;
  lab.script(R"(import multiprocessing, sys

def child(queue):
    queue.put((__name__, "preloaded" in sys.modules))

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(method, queue.get(timeout=60))
        process.join()
)");
  CHECK(lab.lab.await_exit().exit_code == 0);
  CHECK(lab.prints("fork ('__main__', True)"));
  CHECK(lab.prints("spawn ('__mp_main__', False)"));
  CHECK(lab.prints("forkserver ('__mp_main__', False)"));
}

TEST_CASE("a signal to a forked worker reaches its group, and its end is reported with it") {
  Preload lab;
  lab.script("import os, time\nif os.fork() == 0:\n    time.sleep(600)\n" + std::string(kWaits));
  REQUIRE(lab.prints("waits"));
  lab.lab.supervisor.send(0, SignalWorker{kWorker, SIGKILL});
  CHECK(lab.lab.await_exit().signal == SIGKILL);
  lab.script(kWaits, kOther);
  REQUIRE(lab.prints("waits", kOther));
  lab.lab.supervisor.send(0, StopWorker{kOther, 5'000});
  CHECK(lab.lab.await_exit(kOther).signal == SIGTERM);
}

TEST_CASE("workers of one fork server have random numbers of their own") {
  Preload lab;
  const std::string text = "import random\nprint('random', random.random())\n";
  lab.script(text);
  lab.lab.await_exit();
  lab.script(text, kOther);
  lab.lab.await_exit(kOther);
  CHECK(lab.lab.supervisor.lines(0, kWorker) != lab.lab.supervisor.lines(0, kOther));
}

TEST_CASE("without a usable fork server workers start by themselves, and the first one's output says why") {
  struct Example {
    const char* module;
    const char* reason;
    std::uint64_t timeout_ms;
  };
  const Example examples[] = {
      {"raise RuntimeError('not today')\n", "cannot import preloaded: RuntimeError: not today", 30'000},
      {"import sys\nsys.exit(7)\n", "cannot import preloaded: SystemExit: 7", 30'000},
      {"import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='poller', daemon=True).start()\n",
       "importing preloaded started a thread (poller)", 30'000},
      {"import time\ntime.sleep(600)\n", "did not import preloaded within", 300},
      {"import os\nos._exit(5)\n", "it ended with status 5", 30'000},
      {"import os\nos.write(2, b'no license')\nos._exit(5)\n", "it ended with status 5 (no license)", 30'000},
  };
  for (const Example& example : examples) {
    CAPTURE(example.reason);
    Preload lab(example.module, example.timeout_ms);
    lab.script("print('started')\n");
    CHECK(lab.lab.await_exit().exit_code == 0);
    CHECK(lab.prints("started"));
    CHECK(lab.prints(example.reason, kWorker, true));
    CHECK(lab.lab.await_exit().last_error_lines.empty());
    lab.script("print('again')\n", kOther);
    CHECK(lab.lab.await_exit(kOther).exit_code == 0);
    CHECK(lab.lab.supervisor.lines(0, kOther, true).empty());
  }
}

TEST_CASE("a fork server that is lost takes no worker with it") {
  Preload lab;
  lab.script(kWaits);
  REQUIRE(lab.prints("waits"));
  const std::string imports = lab.read("imports");
  const pid_t server = static_cast<pid_t>(std::stol(imports));
  REQUIRE(::kill(server, SIGSTOP) == 0);  // it is asked, and does not answer
  lab.script("print('other')\n", kOther);
  REQUIRE(::kill(server, SIGKILL) == 0);
  CHECK(lab.lab.await_exit(kOther).exit_code == 0);
  CHECK(lab.prints("workers.preload: ", kOther, true));
  CHECK(is_running(static_cast<pid_t>(lab.pid())));
  CHECK(count_lines(lab.read("imports")) == 1);
}

TEST_CASE("a worker that is stopped while the modules are imported is never started") {
  Preload lab("import time\ntime.sleep(600)\n");
  lab.script("open('ran', 'w')\n");
  lab.lab.supervisor.send(0, StopWorker{kWorker, 1'000});
  REQUIRE(lab.lab.supervisor.await<WorkerSpawnFailed>(0));
  CHECK(lab.lab.supervisor.all<WorkerSpawnFailed>(0).at(0).reason == "it was stopped before it started");
  lab.script("open('ran', 'w')\n", kOther);
  lab.lab.spawn("echo passed", WorkerId{99});  // the order before it has arrived
  lab.lab.await_exit(WorkerId{99});
  lab.lab.break_connection();
  CHECK(lab.lab.supervisor.all<AgentHello>(1).at(0).workers == std::vector<WorkerId>{kOther});
  lab.lab.supervisor.send(1, StopAgent{1'000});
  REQUIRE(lab.lab.await_end());
  CHECK_FALSE(std::filesystem::exists(lab.folder.path + "/ran"));
}

TEST_CASE("an agent that is killed leaves neither its fork server nor a forked worker") {
  Preload lab;
  lab.script(kWaits);
  REQUIRE(lab.prints("waits"));
  const pid_t server = static_cast<pid_t>(std::stol(lab.read("imports")));
  const pid_t worker = static_cast<pid_t>(lab.pid());
  REQUIRE(::kill(static_cast<pid_t>(lab.lab.supervisor.all<AgentHello>(0).at(0).pid), SIGKILL) == 0);
  CHECK(lab.lab.supervisor.pump([&] { return !is_running(server) && !is_running(worker); }));
}
