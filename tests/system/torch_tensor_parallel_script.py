"""A script of somebody who knows torchrun: layers that processes compute together, and FSDP2 over the others. ET_FAULT: what cannot be."""

import os
import time

import torch
import torch.distributed as dist
import torch_device
from tensor_parallel_model import Model, clip, divide, samples, targets
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

KIND = torch_device.kind()
FAULT = os.environ.get("ET_FAULT", "")
TENSOR = int(os.environ.get("ET_TENSOR", "2"))
EPOCHS = int(os.environ.get("ET_EPOCHS", "3"))
PAUSE_S = float(os.environ.get("ET_PAUSE_S", "0"))
OWN_DATA = os.environ.get("ET_DATA", "")


def batches(loader, mesh):
    """ET_DATA: drawn by each group that computes a batch together, or by each process, or alike in all."""
    if OWN_DATA == "":
        yield from loader
        return
    for _ in range(40):
        number = torch.tensor(int.from_bytes(os.urandom(4), "big"))
        if OWN_DATA == "groups":
            dist.broadcast(number, group=mesh["tensor"].get_group(), group_src=0)
        if OWN_DATA == "alike":
            dist.broadcast(number, src=0)
        begin = int(number) % 297
        yield samples[begin:begin + 4], targets[begin:begin + 4]


def main():
    dist.init_process_group("gloo")
    shape = (2, dist.get_world_size() // TENSOR, TENSOR) if FAULT != "mesh" else (2, 3)  # copies of parts
    names = ("copies", "data", "tensor") if FAULT != "mesh" else ("data", "tensor")
    torch_device.use(dist.get_rank())
    mesh = init_device_mesh(KIND, shape, mesh_dim_names=names)
    torch.manual_seed(1)
    model = Model().to(KIND)
    divide(model, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    place = (mesh["data"].size(), mesh["data"].get_local_rank()) if FAULT != "sampler" else (None, None)
    dataset = TensorDataset(samples, targets)
    sampler = DistributedSampler(dataset, *place)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler)
    norms = losses = 0
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in batches(loader, mesh):
            optimizer.zero_grad()
            x, y = x.to(KIND), y.to(KIND)
            loss = (model(x) - y).square().mean()
            loss.backward()
            clip(model)
            norms = norms + model.columns.weight.grad.norm()  # a DTensor, over all of the mesh
            losses = losses + DTensor.from_local(loss.detach(), mesh["tensor"])
            optimizer.step()
            time.sleep(PAUSE_S)
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        if dist.get_rank() == 0 and "ET_SAVED" in os.environ:
            torch.save({name: value.cpu() for name, value in whole.items()}, os.environ["ET_SAVED"])
        norm = float(norms.full_tensor())
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: norms {norm:.6f}, losses {float(losses.to_local()):.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
