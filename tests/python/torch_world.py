"""Workers as threads that exchange values, for tests of what they exchange. What a lost worker had is missing, as in a step of
a run: the blocks of the others come first, and the rest is zeros; from that exchange on the others have other ranks."""

import ctypes
import threading

import torch

DEADLINE_S = 20


def _bytes_of(tensor):
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


class Lost(Exception):
    """Raised by a worker that is lost here."""


class World:
    """`early`: the early value of the last committed step."""

    def __init__(self, early=b"0 0"):
        self.early = early
        self._arrived, self._missing, self._lost = {}, 0, set()
        self._round, self._gathered, self._error = 0, b"", None
        self._changed = threading.Condition()

    def run(self, *programs):
        """Each program with the session of its rank, at the same time. Returns their results."""
        self._size = len(programs)
        results = [None] * self._size

        def call(rank):
            try:
                results[rank] = programs[rank](Session(self, rank, self._size))
            except Lost:
                self._lose(rank)
            except BaseException as error:
                self._fail(error)

        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(self._size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return results

    def all_gather(self, worker, value):
        """The blocks of those that are left, who they are, and zeros for the others."""
        with self._changed:
            present = self._round
            self._arrived[worker] = bytes(value)
            self._complete()
            if not self._changed.wait_for(lambda: self._round > present or self._error, DEADLINE_S):
                raise AssertionError(f"only the workers {sorted(self._arrived)} came to this exchange")
            if self._error is not None:
                raise self._error
            return self._gathered, self._left

    def _complete(self):
        if len(self._arrived) + len(self._lost) < self._size or not self._arrived:
            return
        sizes = {len(part) for part in self._arrived.values()}
        if len(sizes) != 1:
            return self._fail(AssertionError(f"the workers are at different exchanges: {self._arrived}"))
        self._gathered = b"".join(part for _, part in sorted(self._arrived.items())).ljust(self._size * max(sizes), b"\0")
        self._left = sorted(self._arrived)
        self._arrived, self._round = {}, self._round + 1
        self._changed.notify_all()

    def _lose(self, worker):
        with self._changed:
            self._lost.add(worker)
            self._complete()

    def _fail(self, error):
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


class Session:
    """What an exchange uses of a session. `calls`: those of collectives, by name."""

    def __init__(self, world, rank, world_size):
        self._world, self._worker, self.rank, self.world_size = world, rank, rank, world_size
        self.committed_step, self.calls = 0, []

    def all_gather(self, value):
        gathered, left = self._world.all_gather(self._worker, value)
        self.rank, self.world_size = left.index(self._worker), len(left)
        return gathered

    def all_gather_into(self, gathered, value):
        self.calls.append("all_gather_into")
        blocks = self.all_gather(_bytes_of(value))
        ctypes.memmove(gathered.data_ptr(), blocks, min(gathered.numel(), len(blocks)))

    def reduce_values(self, values, operation):
        self.calls.append("reduce_values")
        parts = self._tensors_like(values)
        values.copy_({"sum": lambda: sum(parts), "max": lambda: torch.stack(parts).amax(0)}[operation]())

    def broadcast_into(self, received, value, root):
        self.calls.append("broadcast_into")
        held = self._tensors_like(value)
        received.copy_(held[min(root, len(held) - 1)])  # as the session does

    def barrier(self):
        self.calls.append("barrier")
        self.all_gather(b"barrier")

    def _tensors_like(self, values):
        """Of the workers that are left."""
        own = _bytes_of(values)
        blocks = self.all_gather(own)
        left = blocks[:len(own) * self.world_size]
        return [torch.frombuffer(bytearray(left[begin:begin + len(own)]), dtype=values.dtype).reshape(values.shape)
                for begin in range(0, len(left), len(own))]

    def share_early(self, name, value):
        """Counts from the commit of its step on, which no worker here makes."""

    def early(self, name):
        return self._world.early
