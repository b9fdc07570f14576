#!/usr/bin/env python3
"""torchrun, with a repair for torch 1.13 on Python 3.11 (Debian 12): iterating an IntFlag leaves its zero member out there, so
that Std.from_str("0") returns None and every agent ends before it starts a worker. Later versions are not changed by it."""

from torch.distributed.elastic.multiprocessing import api
from torch.distributed.run import main

_from_str = api.Std.from_str.__func__


def from_str(cls, text):
    return cls(int(text)) if text in ("0", "1", "2", "3") else _from_str(cls, text)


api.Std.from_str = classmethod(from_str)

if __name__ == "__main__":
    main()
