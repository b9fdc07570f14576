"""A model that FSDP2 divides among the processes of a replica. ET_FAULT: what the program does wrong."""

import os
import signal
import time

import elastictrain.torch
import torch_device

KIND = torch_device.kind()
FAULT = os.environ.get("ET_FAULT", "")
SIZE = int(os.environ.get("ET_SIZE", "2"))
if FAULT == "late":
    import threading
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
if FAULT == "size":
    os.environ["ELASTICTRAIN_PER_REPLICA"] = "3"
if FAULT == "one process":
    os.environ["ELASTICTRAIN_PER_REPLICA"] = "2"
if FAULT in ("no replica", "one process"):
    import torch.distributed
    SIZE, here = 1, elastictrain.torch.Place(0, 1)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
else:
    here = elastictrain.torch.replica(SIZE)

import torch  # noqa: E402
import torch_replica_start  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

torch.manual_seed(1)
WIDTH = 34 if FAULT == "wider" else 33
model = nn.Sequential(nn.Linear(20, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1))
torch_device.use(here.index)
model.to(KIND)
if FAULT == "session":
    import elastictrain
    elastictrain.Session()
if FAULT == "ignored":
    fully_shard(model, mesh=init_device_mesh(KIND, (SIZE,)), ignored_params={model[0].weight})
elif FAULT == "tensor parallel":
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh(KIND, (SIZE,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh, ignored_params={*model[0].parameters(), *model[2].parameters()})
elif FAULT != "whole":
    mesh = init_device_mesh(KIND, (SIZE,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(3)
COUNT = 302 if FAULT == "more data" else 301
samples = torch.randn(COUNT, 20, generator=generator)
targets = torch.randn(COUNT, 1, generator=generator)
dataset = torch.utils.data.TensorDataset(samples, targets)
ACCUMULATION = int(os.environ.get("ET_ACCUMULATION", "1"))
options = {"accumulation": ACCUMULATION}
if FAULT == "seeds":
    options["seed"] = here.index
run = elastictrain.torch.elastic(model, optimizer, dataset, batch=4, epochs=int(os.environ.get("ET_EPOCHS", "3")), leave="return",
                                 **options)
at_start = os.environ.get("ET_AT_START")
for epoch in run.epochs():
    seen = torch.zeros(1)
    for number, (x, y) in enumerate(run, 1):
        if at_start:  # before anything is trained
            torch_replica_start.save(run, model, optimizer, at_start)
            at_start = None
        seen += len(x)
        x, y = x.to(KIND), y.to(KIND)
        loss = (model(x) - y).square().mean()
        (loss / ACCUMULATION).backward()
        if number % ACCUMULATION:
            continue
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        run.report(loss)
        time.sleep(float(os.environ.get("ET_PAUSE_S", "0")))
        if FAULT == "raises" and here.index == 1 and run.step == 3:
            raise ValueError("a fault of one process")
        if FAULT == "calls" and here.index == 1 and run.step == 3:
            run.session.early("elastictrain/order")
        if FAULT == "killed" and here.index == 1 and run.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    if run.outcome in ("left", "stopped"):
        break
    run.reduce(seen)
    if run.is_first:
        print(f"epoch {epoch}: {int(seen)} samples", flush=True)
whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
if here.index == 0:
    print(f"outcome {run.outcome}", flush=True)
if run.is_first and "ET_SAVED" in os.environ:
    torch.save({name: value.cpu() for name, value in whole.items()}, os.environ["ET_SAVED"])
run.close()
