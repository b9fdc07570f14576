"""Trains on data of its own without an end, with a loss that falls as 1 / samples: half of its fall is over after --half of
them. A step takes 10 ms."""

import argparse
import array
import time

import elastictrain


def train(session, half):
    weights, gradient = array.array("f", [0.0] * 100), array.array("f", [0.0] * 100)
    session.share_model("weights", weights)
    session.set_data(batch=8)
    if not session.start():
        return
    while (batch := session.next_batch()) is not None:
        session.all_reduce(gradient)
        weights[0] += batch.global_samples
        session.commit_step(loss=0.3 + 2 * half / (weights[0] + half))
        time.sleep(0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", type=float)
    with elastictrain.Session() as run:
        train(run, parser.parse_args().half)
