"""A model whose layers the processes of a replica compute together (tensor parallelism), and that FSDP2 divides besides where ET_DATA
says among how many. ET_FAULT: what the program does wrong."""

import os
import time

import elastictrain.torch
import torch_device

KIND = torch_device.kind()
FAULT = os.environ.get("ET_FAULT", "")
DATA, TENSOR = int(os.environ.get("ET_DATA", "1")), int(os.environ.get("ET_TENSOR", "2"))
here = elastictrain.torch.replica(DATA * TENSOR)

import torch  # noqa: E402
import torch.distributed.fsdp  # noqa: E402
import torch.distributed.tensor  # noqa: E402
import torch_replica_start  # noqa: E402
from tensor_parallel_model import Model, clip, divide, samples, targets  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

torch.manual_seed(1)
torch_device.use(here.index)
model = Model().to(KIND)
mesh = init_device_mesh(KIND, (DATA, TENSOR), mesh_dim_names=("data", "tensor"))
if FAULT == "unequal":
    with torch.no_grad():
        model.outer.weight.add_(here.index)
if FAULT == "part of a layer":
    model.norm.weight.register_hook(lambda gradient: gradient * (1 + here.index))
if FAULT == "half":
    torch.distributed.fsdp.fully_shard(model, mesh=mesh["data"])
elif FAULT == "strides":
    divide(model, mesh)
    placements = [torch.distributed.tensor.placement_types._StridedShard(0, split_factor=2)]
    part = torch.distributed.tensor.DTensor.from_local(model.outer.weight.detach()[:10], mesh["tensor"], placements, run_check=False)
    model.outer.weight = torch.nn.Parameter(part)
else:
    divide(model, mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return len(samples)

    def __getitem__(self, place):
        return samples[place] + (here.index if FAULT == "batches" else 0), targets[place]


run = elastictrain.torch.elastic(model, optimizer, Samples(), batch=4, epochs=int(os.environ.get("ET_EPOCHS", "3")), leave="return")
at_start = os.environ.get("ET_AT_START")
for epoch in run.epochs():
    seen = torch.zeros(1)
    for x, y in run:
        if at_start:  # before anything is trained
            torch_replica_start.save(run, model, optimizer, at_start)
            at_start = None
        seen += len(x)
        optimizer.zero_grad()
        x, y = x.to(KIND), y.to(KIND)
        loss = (model(x) - y).square().mean()
        loss.backward()
        clip(model)
        optimizer.step()
        run.report(loss)
        time.sleep(float(os.environ.get("ET_PAUSE_S", "0")))
    if run.outcome in ("left", "stopped"):
        break
    run.reduce(seen)
    if run.is_first:
        print(f"epoch {epoch}: {int(seen)} samples", flush=True)
whole = {name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in model.state_dict().items()}
if run.is_first and "ET_SAVED" in os.environ:
    torch.save({name: value.cpu() for name, value in whole.items()}, os.environ["ET_SAVED"])
run.close()
