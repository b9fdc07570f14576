"""PyTorch programs that change their size while they train.

    run = elastictrain.torch.elastic(model, optimizer, dataset, batch=64, epochs=10, state={"scheduler": scheduler})
    for epoch in run.epochs():
        for x, y in run:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
        scheduler.step()
"""

from ._elastic import elastic
from ._run import ElasticRun

__all__ = ["ElasticRun", "elastic"]
