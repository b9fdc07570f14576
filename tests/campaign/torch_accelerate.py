"""A script with accelerate whose epochs have two or three steps: it gathers losses behind updates and the scores of all test
samples, and compares all workers behind each epoch. ET_ACCUMULATION batches make an update."""

import os

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

import torch_counts as counts

ACCUMULATION = int(os.environ.get("ET_ACCUMULATION", "1"))


def train(accelerator, model, loader, optimizer, scheduler):
    model.train()
    for number, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = counts.loss_of(model, batch)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                counts.count_each_sample_as_one(accelerator.unwrap_model(model))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients and number % 4 == 1:
            accelerator.gather(loss.detach())


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    for inputs, labels, indices in loader:
        accelerator.gather_for_metrics((model(inputs, indices)[0].argmax(1), labels))


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATION)
    torch.manual_seed(0)
    model = counts.Counted()
    optimizer = counts.make_optimizer(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda update: 0.99 ** (update % 50), lambda update: 1.0])
    loader = counts.make_loader(counts.make_data(counts.SAMPLES), shuffle=True)
    test = counts.make_loader(counts.make_data(counts.TEST_SAMPLES))
    model, optimizer, loader, test, scheduler = accelerator.prepare(model, optimizer, loader, test, scheduler)
    own = accelerator.unwrap_model(model)
    for epoch in range(counts.EPOCHS):
        train(accelerator, model, loader, optimizer, scheduler)
        evaluate(accelerator, model, test)
        counts.check_alike(gather_object([counts.likeness(own, epoch)]))
        over = accelerator.reduce(counts.is_over(epoch), reduction="sum")
        accelerator.wait_for_everyone()
        if over > 0:
            break
    counts.say_counted(own, epoch)
    accelerator.end_training()


if __name__ == "__main__":
    main()
