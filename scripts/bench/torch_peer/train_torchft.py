#!/usr/bin/env python3
"""The training of train.py --model resnet18 with torchft: one replica group of one worker, which meets the others at the
lighthouse that TORCHFT_LIGHTHOUSE names. The records in $RUN_DIR are those of train.py; a step that torchft discards has none."""

import os

import torch
import torchft
from torch import distributed, nn

from train import SAMPLES, StepLog, make_model

BATCH = 32


def main():
    torch.set_num_threads(1)
    node = os.environ["NODE"]
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    model = make_model("resnet18")
    own = torch.optim.AdamW(model.parameters(), lr=0.001)

    def load(state):
        model.load_state_dict(state["model"])
        own.load_state_dict(state["optimizer"])

    manager = torchft.Manager(pg=torchft.ProcessGroupGloo(), load_state_dict=load, min_replica_size=1,
                              state_dict=lambda: {"model": model.state_dict(), "optimizer": own.state_dict()},
                              rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
                              lighthouse_addr=os.environ["TORCHFT_LIGHTHOUSE"], replica_id=node)
    parallel = torchft.DistributedDataParallel(manager, model)
    optimizer = torchft.Optimizer(manager, own)
    loss_of = nn.CrossEntropyLoss()
    random = torch.Generator().manual_seed(int(node[1:]))
    images = torch.randn(SAMPLES, 3, 32, 32, generator=random)
    labels = torch.randint(0, 10, (SAMPLES,), generator=random)
    log = StepLog(os.environ["RUN_DIR"], node, 0)
    committed = 0
    while True:
        first = (committed * BATCH) % (SAMPLES - BATCH + 1)
        optimizer.zero_grad()
        loss_of(parallel(images[first:first + BATCH]), labels[first:first + BATCH]).backward()
        optimizer.step()
        if manager.current_step() != committed:
            committed = manager.current_step()
            log.fields["world"] = manager.num_participants()
            log.add(committed)


if __name__ == "__main__":
    main()
