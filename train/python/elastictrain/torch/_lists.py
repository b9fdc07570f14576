"""Lists of as many tensors as there are workers, which a script made for another number of them."""

from typing import List, Optional

import torch

Rows = List[Optional[torch.Tensor]]  # by rank; None: of a worker that has nothing to tell


def fit(values: List[torch.Tensor], rows: Rows, own: int, seat: Optional[int] = None) -> None:
    """Writes the rows into the script's list, which becomes shorter or longer.

    `own`: the rank of this worker, whose row is there. With a `seat` the list keeps its places, as code that wrote down its rank
    and the number of workers at its start puts a tensor of its own into its place and concatenates all: this worker's row is there,
    those of the others are in the other places, and a place before it for which there is no row gets a tensor without any."""
    if seat is None:
        _shorten(values, rows)
        return
    others = [row for rank, row in enumerate(rows) if row is not None and rank != own]
    own_row = rows[own]
    assert own_row is not None
    for place in range(len(values)):
        if place == seat:
            write(values[place], own_row)
        elif others:
            write(values[place], others.pop(0))
        elif place < seat:
            values[place] = own_row.new_empty((0, *own_row.shape[1:]))
        else:
            del values[place:]
            break
    values.extend(others)


def _shorten(values: List[torch.Tensor], rows: Rows) -> None:
    pairs = [(values[rank] if rank < len(values) else row, row) for rank, row in enumerate(rows) if row is not None]
    for value, row in pairs:
        write(value, row)
    values[:] = [value for value, _ in pairs]


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    if values.data_ptr() == tensor.data_ptr() and values.numel():
        return
    with torch.no_grad():
        tensor.detach().copy_(values.reshape(tensor.shape))
