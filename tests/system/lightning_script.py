"""A Lightning program with ElasticStrategy, or with what ET_STRATEGY names: validation, the best checkpoints, a CSV log, a scheduler by epochs, accumulation.
ET_EPOCHS is its length, ET_USES one thing that is refused."""

import os

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader

import elastictrain.lightning
from torch_script import make_model, read

EPOCHS = int(os.environ.get("ET_EPOCHS", "4"))
USES = os.environ.get("ET_USES", "")
STRATEGY = os.environ.get("ET_STRATEGY", "")
SAVED = os.environ["ET_SAVED"]


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = make_model()
        self.automatic_optimization = USES != "manual"

    def training_step(self, batch, number):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, number):
        images, labels = batch
        self.log("accuracy", (self.model(images).argmax(1) == labels).float().mean(), sync_dist=True)

    def test_step(self, batch, number):
        self.log("tested", float(len(batch[0])), sync_dist=True, on_epoch=True, reduce_fx="sum")

    def predict_step(self, batch, number):
        return self.model(batch[0]).argmax(1)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.003)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)]


def main():
    torch.manual_seed(0)
    loader = DataLoader(read("tra"), batch_size=16, shuffle=True)
    callbacks = [ModelCheckpoint(os.path.join(SAVED, "best"), monitor="accuracy", mode="max"),
                 EarlyStopping("accuracy", patience=1000, mode="max")]
    trainer = lightning.Trainer(
        strategy=STRATEGY or elastictrain.lightning.ElasticStrategy(), devices=2 if STRATEGY else 1, accelerator="cpu",
        max_epochs=EPOCHS, sync_batchnorm=USES == "batchnorm",
        accumulate_grad_batches=1 if USES == "manual" else 2, gradient_clip_val=None if USES == "manual" else 1.0,
        logger=CSVLogger(SAVED, "log"), callbacks=callbacks, log_every_n_steps=5,
        enable_model_summary=False, enable_progress_bar=False, limit_train_batches=10 if USES == "limit" else 1.0)
    module = Digits()
    trainer.fit(module, [loader, loader] if USES == "two-loaders" else loader, DataLoader(read("tes"), batch_size=64))
    print(f"rate {module.optimizers().param_groups[0]['lr']:.6f} epoch {trainer.current_epoch} steps {trainer.global_step}",
          flush=True)
    if STRATEGY:
        tested = trainer.test(module, DataLoader(read("tes"), batch_size=64), ckpt_path="best", verbose=False)
        predicted = trainer.predict(module, DataLoader(read("tes"), batch_size=64), ckpt_path="best")
        print(f"tested {tested[0]['tested']:.0f} predicted {sum(len(batch) for batch in predicted)}", flush=True)
    if trainer.is_global_zero:
        print(f"accuracy {float(trainer.callback_metrics['accuracy']):.4f} world {trainer.world_size}", flush=True)


if __name__ == "__main__":
    main()
