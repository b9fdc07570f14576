"""A program with elastictrain.Session and no other package.

ET_RAISE: "loop" or "callback", where rank 0 raises. ET_EPOCHS: its length. ET_EDGE_S: how long its start and its end take.
"""

import array
import atexit
import os
import time

import elastictrain

RAISES = os.environ.get("ET_RAISE", "")
EPOCHS = int(os.environ.get("ET_EPOCHS", "2"))
EDGE_S = float(os.environ.get("ET_EDGE_S", "0"))


def changed(change):
    if RAISES == "callback" and change.rank == 0:
        raise ArithmeticError("an error of the callback")


def train(session):
    weights = array.array("f", [0.0] * 1000)
    gradient = array.array("f", [0.0] * 1000)
    session.share_model("weights", weights)
    session.set_data(sample_count=2000, epochs=EPOCHS, batch=8)
    if not session.start():
        return
    while (batch := session.next_batch()) is not None:
        for i in range(1000):
            gradient[i] = float(sum(batch.samples)) / max(1, batch.local_samples)
        session.all_reduce(gradient)
        if RAISES == "loop" and session.rank == 0 and batch.step == 5:
            raise ArithmeticError("an error of the loop")
        for i in range(1000):
            weights[i] -= 0.01 * gradient[i] * session.learning_rate_factor
        session.commit_step(loss=weights[0])
        time.sleep(0.01)
    session.note("weight", weights[0])
    print(f"{session.outcome} at step {session.committed_step}", flush=True)


if __name__ == "__main__":
    atexit.register(print, "the end", flush=True)
    atexit.register(time.sleep, EDGE_S)
    time.sleep(EDGE_S)
    session = elastictrain.Session()
    session.on_change(changed)
    train(session)
