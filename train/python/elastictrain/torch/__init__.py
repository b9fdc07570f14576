"""PyTorch programs that change their size while they train.

    run = elastictrain.torch.elastic(model, optimizer, dataset, batch=64, epochs=10, state={"scheduler": scheduler})
    for epoch in run.epochs():
        for x, y in run:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
        scheduler.step()
"""

import torch as _torch

OLDEST_TORCH = (2, 5)
if tuple(int(part) for part in _torch.__version__.split(".")[:2]) < OLDEST_TORCH:
    raise ImportError(f"elastictrain.torch needs torch {'.'.join(map(str, OLDEST_TORCH))} or newer; this is "
                      f"{_torch.__version__}")

from ._elastic import elastic  # noqa: E402
from ._options import Data, State  # noqa: E402
from ._replica import Place, replica  # noqa: E402
from ._run import ElasticRun  # noqa: E402

__all__ = ["Data", "ElasticRun", "Place", "State", "elastic", "replica"]
