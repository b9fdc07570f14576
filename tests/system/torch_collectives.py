"""Each collective of torch.distributed by torch's own names, with values that are compared; nothing here knows of elastictrain.
ET_POINT: "setup" (before the training), "update" (behind the update of a step), "between" (two epochs)."""

import inspect
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as with_gradient
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

POINT = os.environ.get("ET_POINT", "update")


def of(rank, *shape, dtype=torch.float32):
    """The values of a rank."""
    count = 1
    for length in shape:
        count *= length
    return (torch.arange(count).reshape(shape) + 10 * rank).to(dtype)


def equal(found, expected):
    if isinstance(expected, torch.Tensor):
        return found.shape == expected.shape and bool((found == expected).all())
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(equal(found[name], expected[name]) for name in expected)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(equal(a, b) for a, b in zip(found, expected))
    return found == expected


class Cases:
    """Each method is a case: what it returns first must equal what it returns second."""

    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.ranks = range(self.world)

    def each(self, *shape, dtype=torch.float32):
        return [of(rank, *shape, dtype=dtype) for rank in self.ranks]

    def total(self, *shape):
        return sum(self.each(*shape))

    def all_reduce(self):
        found = []
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            values = of(self.rank, 3)
            dist.all_reduce(tensor=values, op=op)
            found.append(values)
        stacked = torch.stack(self.each(3))
        return found, [stacked.sum(0), stacked.amax(0), stacked.amin(0), stacked.prod(0)]

    def all_reduce_types(self):
        types = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
        found = [of(self.rank, 2, dtype=kind) for kind in types]
        for values in found:
            dist.all_reduce(values)
        return found, [self.total(2).to(kind) for kind in types]

    def all_reduce_columns(self):
        values = of(self.rank, 2, 3).t()
        dist.all_reduce(values)
        return values, self.total(2, 3).t()

    def all_reduce_complex(self):
        values = torch.complex(of(self.rank, 2), of(self.rank + 1, 2))
        dist.all_reduce(values)
        return values, torch.complex(self.total(2), self.total(2) + 10 * self.world)

    def all_reduce_bits(self):
        values = torch.tensor([1 << self.rank])
        dist.all_reduce(values, op=dist.ReduceOp.BOR)
        return values, torch.tensor([(1 << self.world) - 1])

    def all_reduce_async(self):
        values = of(self.rank, 2)
        work = dist.all_reduce(values, async_op=True)
        work.wait()
        return (values, work.is_completed()), (self.total(2), True)

    def all_reduce_coalesced(self):
        values = [of(self.rank, 2), of(self.rank, 3)]
        dist.all_reduce_coalesced(tensors=values)
        return values, [self.total(2), self.total(3)]

    def coalescing(self):
        values = [of(self.rank, 2), of(self.rank, 3)]
        with dist.distributed_c10d._coalescing_manager():
            for value in values:
                dist.all_reduce(value)
        return values, [self.total(2), self.total(3)]

    def reduce(self):
        values = of(self.rank, 2)
        dist.reduce(tensor=values, dst=self.world - 1)
        return (values, self.total(2)) if self.rank == self.world - 1 else (0, 0)

    def broadcast(self):
        values, flags = of(self.rank, 2, 2), torch.tensor([self.rank == 0])
        dist.broadcast(tensor=values, src=self.world - 1)
        dist.broadcast(flags, **{"group_src" if "group_src" in inspect.signature(dist.broadcast).parameters else "src": 0})
        return (values, flags), (of(self.world - 1, 2, 2), torch.tensor([True]))

    def all_gather(self):
        values, work = [torch.empty(2) for _ in self.ranks], [torch.empty(0) for _ in self.ranks]
        dist.all_gather(tensor_list=values, tensor=of(self.rank, 2))
        dist.all_gather(work, torch.empty(0), async_op=True).wait()
        return values, self.each(2)

    def all_gather_into_tensor(self):
        flat, stacked = torch.empty(2 * self.world), torch.empty(self.world, 2)
        dist.all_gather_into_tensor(output_tensor=flat, input_tensor=of(self.rank, 2))
        dist.all_gather_into_tensor(stacked, of(self.rank, 2))
        return (flat, stacked), (torch.cat(self.each(2)), torch.stack(self.each(2)))

    def gather(self):
        values = [torch.empty(2) for _ in self.ranks] if self.rank == 0 else None
        dist.gather(tensor=of(self.rank, 2), gather_list=values, dst=0)
        return (values, self.each(2)) if self.rank == 0 else (0, 0)

    def scatter(self):
        own, root = torch.empty(2), self.world - 1
        dist.scatter(tensor=own, scatter_list=self.each(2) if self.rank == root else None, src=root)
        return own, of(self.rank, 2)

    def reduce_scatter(self):
        own = torch.empty(2)
        dist.reduce_scatter(output=own, input_list=[of(self.rank + to, 2) for to in self.ranks])
        return own, sum(of(rank + self.rank, 2) for rank in self.ranks)

    def reduce_scatter_tensor(self):
        own = torch.empty(2)
        dist.reduce_scatter_tensor(output=own, input=torch.cat([of(self.rank + to, 2) for to in self.ranks]))
        return own, sum(of(rank + self.rank, 2) for rank in self.ranks)

    def all_to_all(self):
        values = [torch.empty(rank + 1) for rank in self.ranks]
        dist.all_to_all(output_tensor_list=values, input_tensor_list=[of(self.rank + to, self.rank + 1) for to in self.ranks])
        return values, [of(rank + self.rank, rank + 1) for rank in self.ranks]

    def all_to_all_single(self):
        values, sizes = torch.empty(self.world), [to + 1 for to in self.ranks]
        dist.all_to_all_single(output=values, input=torch.tensor([10.0 * self.rank + to for to in self.ranks]))
        uneven = torch.empty((self.rank + 1) * self.world)
        dist.all_to_all_single(uneven, torch.cat([of(self.rank, size) for size in sizes]), [self.rank + 1] * self.world, sizes)
        return (values, uneven), (torch.tensor([10.0 * rank + self.rank for rank in self.ranks]),
                                  torch.cat([of(rank, self.rank + 1) for rank in self.ranks]))

    def objects(self):
        held, at_first = [None] * self.world, [None] * self.world if self.rank == 0 else None
        dist.all_gather_object(object_list=held, obj={"rank": self.rank, "values": "x" * self.rank})
        dist.gather_object(obj=self.rank, object_gather_list=at_first, dst=0)
        sent, own = [self.rank, "b"] if self.rank == 0 else [None, None], [None]
        dist.broadcast_object_list(object_list=sent, src=0)
        dist.scatter_object_list(own, [f"to {rank}" for rank in self.ranks] if self.rank == 0 else None, src=0)
        return (held, at_first, sent, own), ([{"rank": rank, "values": "x" * rank} for rank in self.ranks],
                                             list(self.ranks) if self.rank == 0 else None, [0, "b"], [f"to {self.rank}"])

    def functional(self):
        group = dist.group.WORLD
        parts = torch.cat([of(self.rank + to, 2) for to in self.ranks])
        found = (functional.all_reduce(of(self.rank, 2), "sum", group), functional.all_gather_tensor(of(self.rank, 2), 0, group),
                 functional.reduce_scatter_tensor(parts, "sum", 0, group), functional.broadcast(of(self.rank, 2), 0, group),
                 functional.all_to_all_single(parts, [2] * self.world, [2] * self.world, group))
        return [value.clone() for value in found], [
            self.total(2), torch.cat(self.each(2)), sum(of(rank + self.rank, 2) for rank in self.ranks), of(0, 2),
            torch.cat([of(rank + self.rank, 2) for rank in self.ranks])]

    def gradients(self):
        values = torch.ones(2, requires_grad=True)
        with_gradient.all_reduce(values * (self.rank + 1)).sum().backward()
        gathered = with_gradient.all_gather(torch.full((1,), float(self.rank), requires_grad=True))
        return (values.grad, torch.cat(list(gathered)).detach()), (
            torch.full((2,), float((self.rank + 1) * self.world)), torch.arange(self.world, dtype=torch.float32))

    def groups(self):
        group = dist.new_group(ranks=list(self.ranks))
        values = of(self.rank, 2)
        dist.all_reduce(values, group=group)
        return (values, dist.get_world_size(group), dist.get_rank(group), dist.get_process_group_ranks(group),
                dist.get_global_rank(group, self.rank), dist.get_backend(group)), (
            self.total(2), self.world, self.rank, list(self.ranks), self.rank, "gloo")

    def waiting(self):
        dist.barrier()
        dist.monitored_barrier()
        return dist.barrier(async_op=True).wait(), True

    def checkpoint(self):
        import torch.distributed.checkpoint as checkpoint
        held = [tempfile.mkdtemp(dir=os.environ.get("ET_SAVED")) if self.rank == 0 else None]
        dist.broadcast_object_list(held, 0)
        state = {"weights": torch.arange(4.0), "step": torch.tensor(self.world)}
        checkpoint.save(state, checkpoint_id=held[0])
        if "ET_SAVED" in os.environ:
            checkpoint.async_save(state, checkpoint_id=held[0] + "-async").result()
        dist.barrier()
        found = [{name: torch.zeros_like(value) for name, value in state.items()} for _ in range(2)]
        checkpoint.load(found[0], checkpoint_id=held[0])
        if "ET_SAVED" in os.environ:
            checkpoint.load(found[1], checkpoint_id=held[0] + "-async")
        return found, [state, state if "ET_SAVED" in os.environ else found[1]]

    def run(self):
        names = [name for name, value in vars(Cases).items() if callable(value) and not name.startswith("_")
                 and name not in ("each", "total", "run")]
        for name in os.environ.get("ET_CASES", " ".join(names)).split():
            try:
                found, expected = getattr(self, name)()
                result = "equal" if equal(found, expected) else f"{found} is not {expected}"
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
            print(f"case {name} rank {self.rank} of {self.world}: {result}", flush=True)


def main():
    dist.init_process_group(backend="gloo")
    torch.manual_seed(0)
    if POINT == "setup":
        Cases().run()
    data = TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for number, (x, y) in enumerate(DataLoader(data, batch_size=16, sampler=DistributedSampler(data))):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
            if POINT == "update" and epoch == 0 and number == 1:
                Cases().run()
        if POINT == "between" and epoch == 0:
            Cases().run()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
