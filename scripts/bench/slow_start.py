#!/usr/bin/env python3
"""A program that starts as slowly as a large package is imported (ET_START_S), and then sleeps in place of computing
(ET_SAMPLE_S a sample, ET_SLOWER of it longer for each worker beside the first): ET_SAMPLES samples in all."""

import array
import os
import time

time.sleep(float(os.environ["ET_START_S"]))

import elastictrain  # noqa: E402: after what stands for the imports of a training program


def main():
    sample_s = float(os.environ["ET_SAMPLE_S"])
    slower = float(os.environ.get("ET_SLOWER", "0"))
    session = elastictrain.Session()
    weights, gradient = array.array("f", [0.0] * 1024), array.array("f", [0.0] * 1024)
    session.share_state("weights", weights)
    session.set_data(sample_count=int(os.environ["ET_SAMPLES"]), epochs=1)
    if not session.start():
        return
    while (batch := session.next_batch()) is not None:
        time.sleep(sample_s * len(batch.samples) * (1 + slower * (session.world_size - 1)))
        session.all_reduce(gradient)
        session.commit_step()


if __name__ == "__main__":
    main()
