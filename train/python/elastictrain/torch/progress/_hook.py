"""Where scripts are rewritten: their main module, the modules of their folder, what is not installed, and named packages.

`install()` comes before the script's imports, `run_main()` runs its main module as the interpreter would. With
ELASTICTRAIN_REWRITE=0 nothing is rewritten. ELASTICTRAIN_REWRITE_PACKAGES names installed packages, or single modules of them,
whose loops are part of the training, separated by commas.
"""

import builtins
import functools
import importlib.machinery
import os
import runpy
import sys
import sysconfig
import types
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from . import _loops, _rewrite

OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep  # the package elastictrain
_LINKED = os.path.realpath(OURS) + os.sep
PACKAGES = ("tqdm", "transformers.trainer", "lightning.fabric.wrappers", "lightning_fabric.wrappers")
NEVER = frozenset(("torch", "numpy", "elastictrain", "torchvision", "torchaudio", "triton", "scipy", "pandas", "PIL",
                   "pyarrow"))
INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_LIBRARY = tuple(os.path.realpath(sysconfig.get_paths()[name]) + os.sep for name in ("stdlib", "platstdlib"))


class _Sources:
    """Which files are the script's own."""

    def __init__(self) -> None:
        self.roots: List[str] = []  # with a separator at the end
        self.packages: List[str] = []  # that are rewritten as well, and modules
        self.files: Set[str] = set()  # of such modules
        self.main_package = ""  # of `python -m`
        self.is_installed = False  # the hook


_sources = _Sources()
_kept: List[types.ModuleType] = []  # main modules whose functions still run


def is_asked_for() -> bool:
    return os.environ.get("ELASTICTRAIN_REWRITE") != "0"


def install(main: Optional[str] = None, packages: Sequence[str] = ()) -> None:
    """Rewrites what is imported from now on. `main`: the script's file."""
    named = os.environ.get("ELASTICTRAIN_REWRITE_PACKAGES", "").split(",")
    _sources.packages += [name for name in (*PACKAGES, *packages, *named) if name and name not in _sources.packages]
    if main is not None:
        _add_root(os.path.dirname(os.path.realpath(main)))
    if is_asked_for() and not _sources.is_installed:
        _sources.is_installed = True
        _change_loader()
        for name, module in list(sys.modules.items()):
            if is_library_module(name):
                _rewrite_loaded(module)


def _add_root(folder: str) -> None:
    if folder + os.sep not in _sources.roots:
        _sources.roots.append(folder + os.sep)
        is_own_file.cache_clear()


def _change_loader() -> None:
    """All ways to import a source file, those of editable packages too, lead to this method."""
    plain = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if not _is_rewritten(path, fullname):
            return plain(self, fullname)
        return _rewrite.code_of(self.get_data(path), path)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _rewrite_loaded(module: types.ModuleType) -> None:
    """A named package that was imported before: its functions get the rewritten code."""
    spec = module.__spec__
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader) or spec.origin is None:
        return
    _add_library(spec.origin, module.__name__)
    code = _rewrite.code_of(spec.loader.get_data(spec.origin), spec.origin)
    for alias in _rewrite.IMPORTED:
        module.__dict__.setdefault(alias[1], getattr(_loops, alias[0]))
    made = _codes_in(code)
    for function in _functions_in(module):
        new = made.get((function.__code__.co_name, function.__code__.co_firstlineno))
        if new is not None and new.co_freevars == function.__code__.co_freevars:
            function.__code__ = new


def _codes_in(code: types.CodeType) -> Dict[Tuple[str, int], types.CodeType]:
    found = {(code.co_name, code.co_firstlineno): code}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(_codes_in(constant))
    return found


def _functions_in(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Those of the module and of the classes that it defines."""
    things = list(vars(module).values())
    for thing in things:
        if isinstance(thing, type) and thing.__module__ == module.__name__:
            things += list(vars(thing).values())  # grows while it is read: classes within classes
        function = getattr(thing, "__func__", getattr(thing, "fget", thing))
        if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
            yield function


def _is_rewritten(path: str, module: str) -> bool:
    top = module.partition(".")[0]
    if top == _sources.main_package or is_library_module(module):
        _add_library(path, module)
    return top not in NEVER and is_own_file(path)


def _add_library(path: str, module: str) -> None:
    top = module.partition(".")[0]
    if top in _sources.packages or top == _sources.main_package:
        _add_root(_package_folder(path, module))
    else:
        _sources.files.add(os.path.realpath(path))
        is_own_file.cache_clear()


def _package_folder(path: str, module: str) -> str:
    """That of the module's top package."""
    folder = os.path.realpath(path)
    is_package = os.path.basename(path) == "__init__.py"
    for _ in range(module.count(".") + is_package):
        folder = os.path.dirname(folder)
    return folder if folder != os.path.realpath(path) else os.path.dirname(folder)


@functools.lru_cache(maxsize=None)
def is_own_file(path: str) -> bool:
    """Whether a file, as code objects have it, is the script's or of a named package."""
    real = os.path.realpath(path)
    if path.startswith("<") or real.startswith(_LINKED):
        return False
    if real in _sources.files:
        return True
    for root in _sources.roots:
        if real.startswith(root) and not any(part in real[len(root) - 1:] for part in INSTALLED):
            return True
    return not any(part in real for part in INSTALLED) and not real.startswith(_LIBRARY)


def is_library_module(name: str) -> bool:
    """Whether it is only rewritten because it, or its package, may drive the training."""
    return name in _sources.packages or name.partition(".")[0] in _sources.packages


def is_library_file(path: str) -> bool:
    """Whether it is of Python's own library."""
    return os.path.realpath(path).startswith(_LIBRARY) and not any(part in path for part in INSTALLED)


def short_name(path: str) -> str:
    """A file's name without the folders that differ from host to host."""
    real = os.path.realpath(path)
    inside = [real[len(root):] for root in _sources.roots if real.startswith(root)]
    if inside:
        return min(inside, key=len)
    for part in INSTALLED:
        if part in real:
            return real.rpartition(part)[2]
    return os.path.basename(real)


# --- The main module

def main_code(path: str, source: bytes) -> types.CodeType:
    """The code of a script, rewritten unless that is switched off."""
    if not is_asked_for():
        _rewrite.LEFT[path] = "ELASTICTRAIN_REWRITE=0"
        return compile(source, path, "exec", dont_inherit=True)
    return _rewrite.code_of(source, path)


def run_main(target: str, argv: Sequence[str] = (), is_module: bool = False) -> None:
    """Runs a script's file or, as `python -m`, its module, in a fresh module __main__. Whoever calls has its own way with the
    exceptions of the script; a traceback does not show this package."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    sys.argv = [target, *argv]
    if not sys.flags.isolated and not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(target))
    try:
        if is_module:
            _run_module(target)
        elif os.path.isdir(target):
            _rewrite.LEFT[target] = "a folder as the main program is not rewritten"
            runpy.run_path(target, run_name="__main__")
        else:
            _run_file(target, main)
    except BaseException as error:
        if not isinstance(error, SystemExit):
            _shorten_traceback(error)
        raise


def _run_module(name: str) -> None:
    """The folder of its top package is the script's."""
    _sources.main_package = name.partition(".")[0]
    install()
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run_file(target: str, main: types.ModuleType) -> None:
    path = os.path.abspath(target)
    install(path)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __spec__=None, __package__=None, __loader__=loader)
    exec(main_code(path, source), main.__dict__)


def _shorten_traceback(error: BaseException) -> None:
    """What prints the exception at the end does not see the frames of this package."""
    own = sys.excepthook

    def hook(kind: Any, value: BaseException, trace: Any) -> None:
        sys.excepthook = own
        trace = _without_callers(trace) if value is error else trace
        own(kind, value.with_traceback(trace), trace)

    sys.excepthook = hook


def _without_callers(trace: Optional[types.TracebackType]) -> Optional[types.TracebackType]:
    """From the script's first frame on."""
    while trace is not None and not _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_ours(path: str) -> bool:
    return path.startswith(OURS) or path in (runpy.__file__, "<frozen runpy>")


def package_of(path: str) -> str:
    """The top package of an installed file."""
    for part in INSTALLED:
        if part in path:
            return path.rpartition(part)[2].split(os.sep)[0].partition(".")[0]
    return ""
