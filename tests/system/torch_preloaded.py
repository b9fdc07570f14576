"""Says whether this worker's process had torch before its script, and what its random numbers begin with."""

import os
import sys

had_torch = "torch" in sys.modules

import torch  # noqa: E402

print(f"worker {os.environ['RANK']}: torch {'imported before' if had_torch else 'imported here'}, seed {torch.initial_seed()}, "
      f"{torch.get_num_threads()} threads", flush=True)
