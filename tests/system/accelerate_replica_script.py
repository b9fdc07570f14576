"""A script with accelerate's FSDP2 that changes nothing. ET_FAULT: what is refused. ET_SAVED: where rank 0 saves the whole model."""

import os
import time

import torch
from accelerate import Accelerator, DataLoaderConfiguration, FullyShardedDataParallelPlugin
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FAULT, EPOCHS = os.environ.get("ET_FAULT"), int(os.environ.get("ET_EPOCHS", "3"))
PAUSE_S = float(os.environ.get("ET_PAUSE_S", "0"))
OPTIONS = {"dispatches": {"dispatch_batches": True}, "splits": {"split_batches": True}}.get(FAULT, {})


def main():
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="size_based_wrap", min_num_params=100)
    accelerator = Accelerator(cpu=True, fsdp_plugin=None if FAULT == "whole" else plugin,
                              gradient_accumulation_steps=int(os.environ.get("ET_ACCUMULATION", "1")),
                              dataloader_config=DataLoaderConfiguration(**OPTIONS))
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(3)
    samples, targets = torch.randn(301, 20, generator=generator), torch.randn(301, 1, generator=generator)
    train = DataLoader(TensorDataset(samples, targets), batch_size=4, shuffle=True)
    test = DataLoader(TensorDataset(samples[:64], targets[:64]), batch_size=4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: 1.0)
    model, optimizer, train, test, scheduler = accelerator.prepare(model, optimizer, train, test, scheduler)
    for epoch in range(EPOCHS):
        model.train()
        for x, y in train:
            with accelerator.accumulate(model):
                accelerator.backward((model(x) - y).square().mean())
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            time.sleep(PAUSE_S)
        model.eval()
        with torch.no_grad():
            errors = torch.cat([accelerator.gather_for_metrics((model(x) - y).square()) for x, y in test])
        accelerator.print(f"epoch {epoch}: error {errors.mean().item():.4f} of {len(errors)}, units {scheduler.scheduler.last_epoch}",
                          flush=True)
    if "ET_SAVED" in os.environ:
        accelerator.save(accelerator.get_state_dict(model), os.environ["ET_SAVED"])
    accelerator.end_training()


if __name__ == "__main__":
    main()
