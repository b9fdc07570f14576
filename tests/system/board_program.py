"""A program that uses the board before it starts, while it trains and as a joiner.

Each step rank 0 leaves its number under "step" and 100 kB under "large"; a worker that starts after the first two waits for
"step" before it joins, and prints what it got. ET_ASKS: a file; while it is there rank 0 asks for "answered", and prints.
"""

import array
import os
import time

import elastictrain

ASKS = os.environ.get("ET_ASKS", "")


def meet(session):
    """Workers that have no communicator yet."""
    mine = session.worker_id
    session.board_put(f"from {mine}", b"worker %d" % mine)
    other = session.board_get(f"from {3 - mine if mine < 3 else 1}", 20)
    print(f"worker {mine} met {other.decode() if other else 'nobody'}", flush=True)
    if mine > 2:
        print(f"worker {mine} starts behind step {(session.board_get('step', 20) or b'none').decode()}", flush=True)


def in_step(session, batch):
    if session.rank != 0:
        return
    session.board_put("step", b"%d" % batch.step)
    session.board_put("large", bytes(100_000))
    if os.path.exists(ASKS):
        value = session.board_get("kept", 1)
        print(f"step {batch.step} kept {value.decode() if value else 'nothing'}", flush=True)


def train(session):
    weights, gradient = array.array("f", [0.0] * 1000), array.array("f", [0.0] * 1000)
    session.share_model("weights", weights)
    session.set_data(sample_count=2000, epochs=10_000, batch=8)
    meet(session)
    if not session.start():
        return
    if session.worker_id == 1:
        session.board_put("kept", b"a value of before")
    while (batch := session.next_batch()) is not None:
        in_step(session, batch)
        session.all_reduce(gradient)
        session.commit_step(loss=0.0)
        time.sleep(0.01)


if __name__ == "__main__":
    with elastictrain.Session() as run:
        train(run)
