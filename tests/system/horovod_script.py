"""An elastic Horovod program with its import changed. ET_EPOCHS is its length, ET_USES one thing that is refused."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader

import elastictrain.horovod as hvd
from torch_script import make_model, read

EPOCHS = int(os.environ.get("ET_EPOCHS", "4"))
USES = os.environ.get("ET_USES", "")


@hvd.elastic.run
def train(state, loader, test):
    for state.epoch in range(state.epoch, EPOCHS):
        state.sampler.set_epoch(state.epoch)
        state.model.train()
        for number, (images, labels) in enumerate(loader):
            state.optimizer.zero_grad()
            nn.functional.cross_entropy(state.model(images), labels).backward()
            state.optimizer.step()
            state.sampler.record_batch(number, len(labels))
            state.commit()
        evaluate(state, test)


@torch.no_grad()
def evaluate(state, test):
    state.model.eval()
    images, labels = test.tensors[0][hvd.rank()::hvd.size()], test.tensors[1][hvd.rank()::hvd.size()]
    hits = (state.model(images).argmax(1) == labels).sum()
    hits, seen = hvd.allreduce(torch.stack([hits, torch.tensor(len(labels))]), op=hvd.Sum).tolist()
    if hvd.rank() == 0:
        print(f"epoch {state.epoch} accuracy {hits / seen:.4f} of {seen} world {hvd.size()}", flush=True)


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    data = read("tra")
    sampler = hvd.elastic.ElasticSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=None if USES == "no-sampler" else sampler)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Sum if USES == "sum" else hvd.Average)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)
    state.register_reset_callbacks([lambda: print(f"now {hvd.size()}", flush=True)])
    train(state, loader, read("tes"))


if __name__ == "__main__":
    main()
