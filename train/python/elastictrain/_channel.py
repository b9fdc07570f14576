"""Messages between the processes of a replica."""

import pickle
import select
import socket
import struct
from typing import Any, Optional, Tuple


class Channel:
    """Messages between two processes of a replica, each with at most one descriptor."""

    HEADER = struct.Struct("=Q?")

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def send(self, message: Any, descriptor: Optional[int] = None) -> None:
        body = pickle.dumps(message)
        header = self.HEADER.pack(len(body), descriptor is not None)
        try:
            socket.send_fds(self._socket, [header], [] if descriptor is None else [descriptor])
            self._socket.sendall(body)
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None

    def receive(self) -> Tuple[Any, Optional[int]]:
        """Raises EOFError where the other process has ended."""
        header, descriptors, _, _ = socket.recv_fds(self._socket, self.HEADER.size, 1)
        header += self._read(self.HEADER.size - len(header))
        size, has_descriptor = self.HEADER.unpack(header)
        return pickle.loads(self._read(size)), descriptors[0] if has_descriptor else None

    def has_more(self) -> bool:
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
