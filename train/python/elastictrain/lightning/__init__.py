"""Lightning programs that change their size while they train.

    trainer = lightning.Trainer(strategy=elastictrain.lightning.ElasticStrategy(), max_epochs=10)
    trainer.fit(model, loader)
"""

from ._strategy import ElasticStrategy

__all__ = ["ElasticStrategy"]
