"""A script with Lightning's ModelParallelStrategy that changes nothing: a Trainer, or Fabric where ET_FABRIC is set. ET_FAULT: what is
refused; "registered": a strategy by its name, with an evaluation of the training data. ET_SAVED: where the whole model is saved.
ET_LOGS: where checkpoints and logs are. ET_LIMIT: limit_train_batches. ET_SIZES: data_parallel_size and tensor_parallel_size."""

import os
import time

import lightning
import torch
from lightning.fabric.strategies import ModelParallelStrategy as FabricStrategy
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

FAULT, EPOCHS = os.environ.get("ET_FAULT", ""), int(os.environ.get("ET_EPOCHS", "3"))
PAUSE_S, SAVED, LOGS = float(os.environ.get("ET_PAUSE_S", "0")), os.environ.get("ET_SAVED"), os.environ.get("ET_LOGS")
grad_accum_steps = int(os.environ.get("ET_ACCUMULATION", "1"))  # by this name it is found
SIZES = dict(zip(("data_parallel_size", "tensor_parallel_size"), map(int, os.environ.get("ET_SIZES", "2 1").split())))
WIDTH = 33 if SIZES["tensor_parallel_size"] == 1 else 32  # of tensor parallelism equal parts
STRATEGIES = {"ddp": "ddp", "auto": "auto", "fsdp": "fsdp", "registered": "divided"}
StrategyRegistry.register("divided", ModelParallelStrategy, data_parallel_size=2, tensor_parallel_size=1)


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1))


def divide(model, mesh):
    if mesh["tensor_parallel"].size() > 1:
        parallelize_module(model, mesh["tensor_parallel"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    if mesh["data_parallel"].size() > 1:
        for part in model:
            if isinstance(part, nn.Linear):
                fully_shard(part, mesh=mesh["data_parallel"])
        fully_shard(model, mesh=mesh["data_parallel"])
    return model


def data():
    generator = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(301, 20, generator=generator), torch.randn(301, 1, generator=generator))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(data())


def save(model):
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if SAVED and torch.distributed.get_rank() == 0:
        torch.save(whole, SAVED)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.is_divided = make_model(), False
        self.automatic_optimization = FAULT != "manual"

    def configure_model(self):
        """Lightning calls it once more for a validation of its own."""
        if not self.is_divided:
            divide(self.model, self.device_mesh)
        self.is_divided = True

    def training_step(self, batch, number):
        time.sleep(PAUSE_S)
        x, y = batch
        loss = (self.model(x) - y).square().mean()
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True, batch_size=len(x))
        self.log("ones", 1.0, on_step=False, on_epoch=True, sync_dist=True, batch_size=len(x))
        return loss

    def validation_step(self, batch, number):
        x, y = batch
        self.log("error", (self.model(x) - y).square().mean(), sync_dist=True, batch_size=len(x))
        self.log("tested", float(len(x)), sync_dist=True, reduce_fx="sum")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)]


class Says(Callback):
    def on_train_epoch_end(self, trainer, module):
        held = trainer.callback_metrics
        trainer.print(f"epoch {trainer.current_epoch}: error {float(held['error']):.4f} of {int(held['tested'])}, loss "
                      f"{float(held['loss']):.4f}, step {trainer.global_step}, ones "
                      f"{float(held['ones']):.4f}", flush=True)


def train():
    callbacks = [Says(), EarlyStopping("error", patience=10 ** 9)]
    if LOGS:
        callbacks.append(ModelCheckpoint(os.path.join(LOGS, "best"), monitor="error", save_last=True))
    trainer = lightning.Trainer(
        strategy=STRATEGIES.get(FAULT) or ModelParallelStrategy(**SIZES, save_distributed_checkpoint=False),
        accelerator="cuda" if FAULT == "cuda" else "cpu", devices=2, max_epochs=EPOCHS,
        gradient_clip_val=None if FAULT == "manual" or WIDTH == 32 else 0.5,  # torch clips over one mesh
        accumulate_grad_batches=grad_accum_steps, logger=CSVLogger(LOGS, "log") if LOGS else False, callbacks=callbacks,
        enable_checkpointing=bool(LOGS), limit_train_batches=int(os.environ.get("ET_LIMIT", "0")) or 1.0, enable_model_summary=False, enable_progress_bar=False, log_every_n_steps=5)
    module, test = Module(), DataLoader(TensorDataset(*data()[:64]), batch_size=4)
    held = data()
    evaluated = DataLoader(held, batch_size=4) if FAULT == "registered" else test
    trainer.fit(module, DataLoader(Stream()) if FAULT == "stream" else DataLoader(held, batch_size=4, shuffle=True), evaluated)
    save(module.model)
    if LOGS:
        found = trainer.validate(module, test, ckpt_path="best", verbose=False)
        trainer.print(f"validated {found[0]['tested']:.0f}", flush=True)


def train_by_fabric():
    fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy=STRATEGIES.get(FAULT) or FabricStrategy(divide, **SIZES))
    fabric.launch()
    model = fabric.setup(make_model())
    optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=0.01))
    loader = fabric.setup_dataloaders(DataLoader(data(), batch_size=4, shuffle=True))
    every = 2 if FAULT == "accumulation" else grad_accum_steps
    for epoch in range(EPOCHS):
        for number, (x, y) in enumerate(loader):
            time.sleep(PAUSE_S)
            accumulates = (number + 1) % every != 0
            with fabric.no_backward_sync(model, enabled=accumulates):
                loss = (model(x) - y).square().mean()
                fabric.backward(loss / every)
            if accumulates:
                continue
            if WIDTH != 32:
                fabric.clip_gradients(model, optimizer, max_norm=0.5)
            optimizer.step()
            optimizer.zero_grad()
        loss = fabric.all_reduce(loss.detach())
        fabric.print(f"epoch {epoch}: loss {float(loss):.4f}", flush=True)
        if LOGS:
            fabric.save(os.path.join(LOGS, "last"), {"model": model, "optimizer": optimizer, "epoch": epoch})
    save(model._forward_module)


if __name__ == "__main__":
    train_by_fabric() if "ET_FABRIC" in os.environ else train()
