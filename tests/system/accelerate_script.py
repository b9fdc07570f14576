"""A script with accelerate that knows nothing of elastictrain: gradient accumulation, gathered losses in an epoch, a score of
all test samples at its end, a saved model. ET_EPOCHS is its length, ET_USES how a batch comes to the workers."""

import os

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader

from torch_script import make_model, read

EPOCHS = int(os.environ.get("ET_EPOCHS", "4"))
USES = os.environ.get("ET_USES", "")


def train(accelerator, model, loader, optimizer, scheduler):
    model.train()
    for number, (images, labels) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients and number % 6 == 1:
            assert accelerator.gather(loss.detach()).numel() <= accelerator.num_processes


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    hits = []
    for images, labels in loader:
        predictions, labels = accelerator.gather_for_metrics((model(images).argmax(1), labels))
        hits.append(predictions == labels)
    return torch.cat(hits)


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2,
                              dataloader_config=DataLoaderConfiguration(split_batches=USES in ("split", "dispatch"),
                                                                        dispatch_batches=USES == "dispatch" or None))
    torch.manual_seed(0)
    data, test = read("tra"), read("tes")
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    loader, test_loader = DataLoader(data, batch_size=16, shuffle=True), DataLoader(test, batch_size=64)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, len(loader) * EPOCHS // 2)
    model, optimizer, loader, test_loader, scheduler = accelerator.prepare(model, optimizer, loader, test_loader, scheduler)
    for epoch in range(EPOCHS):
        train(accelerator, model, loader, optimizer, scheduler)
        hits = evaluate(accelerator, model, test_loader)
        accelerator.print(f"epoch {epoch} accuracy {hits.float().mean():.4f} of {len(hits)} world {accelerator.num_processes}",
                          flush=True)
    print(f"rate {scheduler.get_last_lr()[0]:.6f} after {scheduler.scheduler.last_epoch} updates", flush=True)
    accelerator.wait_for_everyone()
    accelerator.save(accelerator.unwrap_model(model).state_dict(), os.environ["ET_SAVED"])
    accelerator.end_training()


if __name__ == "__main__":
    main()
