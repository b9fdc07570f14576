"""Learns nothing, and says how well it did: the better the nearer its --rate is to 0.01. A step takes 10 ms."""

import argparse
import array
import math
import os
import sys
import time

import elastictrain


def accuracy_after(epochs, rate):
    return (1 - abs(math.log10(rate) + 2) / 4) * (1 - math.exp(-epochs / 4))


def train(session, given):
    weights, gradient = array.array("f", [0.0] * 100), array.array("f", [0.0] * 100)
    session.share_model("weights", weights)
    session.set_data(sample_count=8 * given.steps, epochs=given.epochs, batch=8)
    if not session.start():
        return
    while (batch := session.next_batch()) is not None:
        if batch.first_of_epoch and batch.epoch > 0 and session.rank == 0:
            accuracy = accuracy_after(min(batch.epoch, given.best_after), given.rate)
            session.note("accuracy", f"{accuracy:.4f}")
            print(f"epoch {batch.epoch}: error {1 - accuracy:.4f}", flush=True)
            if given.ends_at == given.rate and batch.epoch >= 12 and session.world_size > 1:
                session.end_data()
        session.all_reduce(gradient)
        session.commit_step(loss=0.0)
        time.sleep(0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=30, help="in an epoch of one worker")
    parser.add_argument("--best-after", type=int, default=1000, help="epochs, after which it is not better any more")
    parser.add_argument("--ends-at", type=float,
                        help="the only --rate that ends, after 12 epochs and when it has grown; the others are stopped")
    parser.add_argument("--wait-for", help="a file without which it does not begin")
    parser.add_argument("--status", type=int, default=0, help="of its end")
    given = parser.parse_args()
    while given.wait_for and not os.path.exists(given.wait_for):
        time.sleep(0.05)
    if given.ends_at is not None:
        given.epochs = 1_000_000
    with elastictrain.Session() as run:
        train(run, given)
    sys.exit(given.status)
