"""A program whose workers disagree once a third one has come, in the way that ET_ODD names.

value: it holds another value, which rank 0 sees. call: it makes one collective more. ends: its script ends after two steps,
with status 0. raises: with an exception. silent: with os._exit(0). declines: before it is a member. exits: the same, silently.
"""

import array
import os
import sys
import time

import elastictrain

ODD = os.environ["ET_ODD"]


def compare(session, value):
    """What rank 0 sees of the others."""
    values = array.array("q", session.all_gather(array.array("q", [value])))
    if session.rank == 0 and len(set(values)) > 1:
        session.disagree(f"the counter is {values[0]} here and {max(values)} elsewhere")
        print(f"step repeated with {session.world_size} workers known", flush=True)


def end_oddly():
    if ODD == "ends":
        sys.exit(0)
    if ODD == "raises":
        raise ValueError("the new worker's loop is at another place")
    if ODD == "silent":
        os._exit(0)


def train(session):
    odd = session.worker_id > 2
    weights, gradient = array.array("f", [0.0] * 1000), array.array("f", [0.0] * 1000)
    session.share_model("weights", weights)
    session.set_data(sample_count=2000, epochs=10_000, batch=8)
    if odd and ODD == "declines":
        session.decline("the script's second loop cannot be entered")
        sys.exit(1)
    if odd and ODD == "exits":
        sys.exit(0)
    if not session.start():
        return
    steps = 0
    while (batch := session.next_batch()) is not None:
        if odd and ODD == "call":
            session.all_reduce(gradient)
        session.all_reduce(gradient)
        if ODD == "value":
            compare(session, 8 if odd else 7)
        session.commit_step(loss=0.0)
        steps += 1
        if odd and steps == 2:
            end_oddly()
        time.sleep(0.01)


if __name__ == "__main__":
    with elastictrain.Session() as run:
        train(run)
