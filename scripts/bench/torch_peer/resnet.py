"""ResNet-18 (11.2 million parameters, 45 MB), as in "Deep Residual Learning for Image Recognition", and random images."""

import torch
from torch import nn
from torch.utils.data import Dataset

SAMPLES = 50_000
CLASSES = 10


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


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
