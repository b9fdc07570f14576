#!/usr/bin/env python3
"""A program that sleeps in place of computing: for so long a step, or for each sample (longer by a part of it for each worker
beside the first). It may start as slowly as a large package is imported, have much state, and share own data as a step begins."""

import argparse
import array
import time

parser = argparse.ArgumentParser()
for name, default in {"start_s": 0.0, "step_s": 0.0, "sample_s": 0.0, "slower": 0.0, "samples": 1_000_000, "epochs": 1000,
                      "state_bytes": 4096, "own_bytes": 0}.items():
    parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
options = parser.parse_args()
time.sleep(options.start_s)

import elastictrain  # noqa: E402: after what stands for the imports of a training program


def main():
    session = elastictrain.Session()
    gradient, own = array.array("f", [0.0] * 1024), bytearray(options.own_bytes)
    session.share_state("state", bytearray(options.state_bytes))
    session.set_data(sample_count=options.samples, epochs=options.epochs)
    if not session.start():
        return
    while (batch := session.next_batch()) is not None:
        if own:
            session.broadcast(own)
        time.sleep(options.step_s + options.sample_s * len(batch.samples) * (1 + options.slower * (session.world_size - 1)))
        session.all_reduce(gradient)
        session.commit_step()


if __name__ == "__main__":
    main()
