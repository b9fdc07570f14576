"""The agent's fork server (`workers.preload`): imports modules once, then is forked for each worker of its host.

    python -m elastictrain._fork_server CHANNEL MODULE,… -- [-m] PROGRAM …

CHANNEL is the number of an inherited SOCK_SEQPACKET socket. The server says "ready" there, or what failed. Each request
is one message with five descriptors: a file with the request, the worker's three streams, and a socket of its own. The
worker is forked twice, so that the agent, a subreaper, becomes its parent; it says its process id on its socket and runs
the program when it is answered. It ends where the agent closes that socket first.
"""

import atexit
import ctypes
import gc
import importlib
import os
import runpy
import signal
import socket
import sys
import threading
import time
import types
import warnings
from typing import Any, List, NamedTuple

PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616D61
PARENT_TIMEOUT_S = 5.0
MAX_TEXT_BYTES = 4096

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """What cannot be done; its text goes to the agent."""


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    modules, program = sys.argv[2].split(","), sys.argv[4:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _put_first_into_path(program)
    try:
        _import(modules)
    except Refused as reason:
        _say(channel, f"E{reason}")
        sys.exit(1)
    gc.collect()
    gc.freeze()
    _say(channel, "ready")
    _serve(channel)


def _put_first_into_path(program: List[str]) -> None:
    """Into sys.path what Python puts there for this program; nothing with its options -I and -P."""
    if not sys.flags.isolated and not getattr(sys.flags, "safe_path", False):
        is_module = program[:1] == ["-m"]
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(program[0]))


def _import(modules: List[str]) -> None:
    for name in modules:
        try:
            module = importlib.import_module(name)
            if name == "torch":
                _make_optimizer(module)
        except BaseException as error:  # a module may call sys.exit()
            raise Refused(f"cannot import {name}: {type(error).__name__}: {error}") from error
        if threading.active_count() > 1:
            names = ", ".join(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
            raise Refused(f"importing {name} started a thread ({names}), which a forked process would lack")
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            raise Refused(f"importing {name} initialized CUDA, which a forked process cannot use")


def _make_optimizer(torch: Any) -> None:
    """The first one imports some 900 modules."""
    torch.optim.SGD([torch.zeros(1)], lr=1.0)


def _serve(channel: socket.socket) -> None:
    """Returns in the workers only; the server ends with its agent."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1, 5)
        if not message:
            os._exit(0)
        sys.stdout.flush()
        sys.stderr.flush()
        between = _fork()
        if between == 0:
            if _fork() != 0:
                os._exit(0)
            channel.close()
            _become(descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(between, 0)


def _fork() -> int:
    """Libraries such as OpenBLAS have threads that they make anew after a fork, of which Python warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become(descriptors: List[int]) -> None:
    """Makes this process the worker, and runs its program once the agent has it."""
    file, *streams, own = descriptors
    agent = socket.socket(fileno=own)
    try:
        request = _read_request(file)
        _leave_server(request)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
    except (OSError, ValueError, Refused) as error:
        _say(agent, f"E{error}")
        os._exit(1)
    _say(agent, str(os.getpid()))
    if not agent.recv(1):
        os._exit(0)
    agent.close()
    _seed()
    _limit_threads(request.environment)
    _run(request.program)


class _Request(NamedTuple):
    agent: int
    working_directory: str
    processors: List[int]
    program: List[str]
    environment: List[str]


def _read_request(descriptor: int) -> _Request:
    """Null-terminated fields, whose bytes stay as they are."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        fields = [os.fsdecode(field) for field in file.read().split(b"\0")[:-1]]
    agent, directory, processors, words = fields[:4]
    program = fields[4:4 + int(words)]
    return _Request(int(agent), directory, [int(number) for number in processors.split(",") if number], program,
                    fields[4 + len(program):])


def _leave_server(request: _Request) -> None:
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _await_parent(request.agent)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != request.agent:
        os._exit(1)
    _libc.prctl(PR_SET_PTRACER, request.agent, 0, 0, 0)
    if request.processors:
        os.sched_setaffinity(0, request.processors)
    os.chdir(request.working_directory or ".")
    os.environ.clear()
    for name, is_set, value in (entry.partition("=") for entry in request.environment):
        if is_set:
            os.environ[name] = value


def _await_parent(agent: int) -> None:
    """The death signal is that of the present parent, so it is set only when the agent has become it."""
    end = time.monotonic() + PARENT_TIMEOUT_S
    while os.getppid() != agent:
        if time.monotonic() > end:
            raise Refused(f"process {agent} did not become the worker's parent")
        time.sleep(0.0005)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _seed() -> None:
    """Python's random has a seed of its own after a fork; numpy and torch have that of the server."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()


def _limit_threads(environment: List[str]) -> None:
    """OpenMP has read its variable, and counted its processors, in the server."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    chosen = [entry.split("=", 1)[1] for entry in environment if entry.startswith("OMP_NUM_THREADS=")]
    threads = int(chosen[-1]) if chosen and chosen[-1].isdigit() else len(os.sched_getaffinity(0))
    if int(torch.get_num_threads()) > max(1, threads):
        torch.set_num_threads(max(1, threads))


def _run(program: List[str]) -> None:
    """As the interpreter would: in a fresh module __main__, with the same messages and statuses."""
    sys.excepthook = _print_from_program
    atexit.register(gc.unfreeze)  # or libraries report what the interpreter does not free at its end as leaks
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [sys.executable, *program]
    main_module = types.ModuleType("__main__")
    main_module.__dict__["__builtins__"] = sys.modules["builtins"]
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main_module
    if "torch" in sys.modules:
        from . import _torch_autoload
        if _torch_autoload.activate():
            is_module = program[0] == "-m"
            from .torch import progress
            return progress.run_main(program[is_module], program[is_module + 1:], is_module)
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy._run_module_as_main(program[1])  # type: ignore[attr-defined]
    else:
        sys.argv = program
        _run_file(program[0], main_module)


def _run_file(path: str, module: types.ModuleType) -> None:
    if os.path.isdir(path):
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}",
              file=sys.stderr)
        sys.exit(2)
    module.__dict__.update(__file__=os.path.abspath(path), __cached__=None)
    exec(compile(source, os.path.abspath(path), "exec"), module.__dict__)


def _print_from_program(kind: Any, error: BaseException, trace: Any) -> None:
    """A traceback without the calls of this file and of runpy that the program did not make."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _say(channel: socket.socket, text: str) -> None:
    try:
        channel.send(text.encode("utf-8", "replace")[:MAX_TEXT_BYTES])
    except OSError:
        os._exit(0)


_kept: List[Any] = []  # the server's own main module, whose functions still run

if __name__ == "__main__":
    main()
