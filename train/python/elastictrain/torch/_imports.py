"""Runs a function when a module is imported that may never be, so that nothing is imported for its sake."""

import importlib.abc
import importlib.machinery
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

_waiting: Dict[str, List[Callable[[Any], None]]] = {}


def after_import(name: str, change: Callable[[Any], None]) -> None:
    """Calls change(module) at the end of the module's import; at once if it is imported."""
    if name in sys.modules:
        change(sys.modules[name])
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(change)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        if name not in _waiting:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _waiting.pop(name))
        return spec


class _Loader(importlib.abc.Loader):
    """The module's own loader, and the functions behind it."""

    def __init__(self, own: Any, changes: List[Callable[[Any], None]]) -> None:
        self._own, self._changes = own, changes

    def create_module(self, spec: Any) -> Any:
        return self._own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._own.exec_module(module)
        for change in self._changes:
            change(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
