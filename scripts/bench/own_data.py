#!/usr/bin/env python3
"""600 MB of state, steps of 0.4 s of waiting in place of computing, and 4 KB of the program's own data at each step's begin."""

import array
import time

import elastictrain

STATE_BYTES = 600_000_000
STEP_S = 0.4


def main():
    session = elastictrain.Session()
    state = bytearray(STATE_BYTES)
    gradient, own = array.array("f", [0.0] * 1024), bytearray(4096)
    session.share_state("state", state)
    session.set_data(sample_count=1_000_000, epochs=1000)
    if not session.start():
        return
    while session.next_batch() is not None:
        session.broadcast(own)
        time.sleep(STEP_S)
        session.all_reduce(gradient)
        session.commit_step()


if __name__ == "__main__":
    main()
