"""The examples' ResNet-18 (11.2 million parameters, 45 MB), and random images."""

import os
import sys

import torch
from torch.utils.data import Dataset

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../train/python/examples"))

from images import CLASSES, resnet18  # noqa: E402

__all__ = ["RandomImages", "resnet18"]
SAMPLES = 50_000


class RandomImages(Dataset):
    """Few different ones, so that loading them costs next to nothing."""

    def __init__(self, size=32, different=64):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randn(different, 3, size, size, generator=generator)
        self.labels = torch.randint(0, CLASSES, (different,), generator=generator)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return self.images[index % len(self.images)], self.labels[index % len(self.images)]
