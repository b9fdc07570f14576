"""A DDP script whose epochs have two or three steps: it shares losses behind updates, evaluates and compares all workers
behind each epoch, and saves."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data.distributed import DistributedSampler

import torch_counts as counts


def train(model, loader, optimizer):
    model.train()
    for number, batch in enumerate(loader):
        optimizer.zero_grad()
        loss = counts.loss_of(model, batch)
        loss.backward()
        counts.count_each_sample_as_one(model.module)
        optimizer.step()
        if number % 2 == 1:
            dist.all_reduce(loss.detach())


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    seen = torch.zeros(2)
    for inputs, labels, indices in loader:
        hits = model.module(inputs, indices)[0].argmax(1) == labels
        seen += torch.tensor([float(hits.sum()), float(len(hits))])
    dist.all_reduce(seen)
    return seen


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DDP(counts.Counted())
    optimizer = counts.make_optimizer(model.module)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda epoch: 0.99 ** (epoch % 50), lambda epoch: 1.0])
    data, test_data = counts.make_data(counts.SAMPLES), counts.make_data(counts.TEST_SAMPLES)
    loader = counts.make_loader(data, sampler=DistributedSampler(data))
    test = counts.make_loader(test_data, sampler=DistributedSampler(test_data, shuffle=False))
    for epoch in range(counts.EPOCHS):
        loader.sampler.set_epoch(epoch)
        train(model, loader, optimizer)
        scheduler.step()
        evaluate(model, test)
        seen = [None] * dist.get_world_size()
        dist.all_gather_object(seen, counts.likeness(model.module, epoch))
        counts.check_alike(seen)
        over = counts.is_over(epoch)
        dist.all_reduce(over, op=dist.ReduceOp.MAX)
        dist.barrier()
        if over:
            break
    counts.say_counted(model.module, epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
