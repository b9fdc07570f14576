"""A worker with a process that helps it: helped_program.py METHOD process|loader begins|works. It says that the process runs,
or begins, and waits for a line; then the process must still help it, and end when this worker ends it.

METHOD: how the process starts (fork, spawn, forkserver)."""

import multiprocessing
import sys
import time

import elastictrain


def help_worker(pipe):
    pipe.send("works")
    pipe.send(pipe.recv())
    time.sleep(600)


def say_and_wait():
    print("signal now", flush=True)
    sys.stdin.readline()


def process(method, works):
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    helper = context.Process(target=help_worker, args=(there,))
    helper.start()
    there.close()
    if works:
        assert here.recv() == "works"
    say_and_wait()
    if not works:
        assert here.recv() == "works"
    here.send("asked")
    assert here.recv() == "asked"
    helper.terminate()
    helper.join()
    print("ended with", helper.exitcode)


def loader(method, works):
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    data = DataLoader(TensorDataset(torch.arange(4)), num_workers=1, persistent_workers=True, multiprocessing_context=method)
    batches = iter(data)
    taken = [int(next(batches)[0])] if works else []
    say_and_wait()
    print("loaded", taken + [int(values[0]) for values in batches])


if __name__ == "__main__":
    session = elastictrain.Session()
    {"process": process, "loader": loader}[sys.argv[2]](sys.argv[1], sys.argv[3] == "works")
    session.close()
