"""What the programs on images share: ResNet-18 (11.2 million parameters, 45 MB), as in "Deep Residual Learning for Image
Recognition", and images made for it."""

import torch
from torch import nn
from torch.utils.data import Dataset

CLASSES = 10
EPOCHS = 3


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


class Images(Dataset):
    """Images of 3x32x32: the pattern of a class under twice as much noise."""

    def __init__(self, count=3200, seed=1):
        self.count, self.seed = count, seed
        self.patterns = torch.randn(CLASSES, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        noise = torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(self.seed * self.count + index))
        return self.patterns[index % CLASSES] + 2 * noise, index % CLASSES


def score(model, count=320):
    """The share of new images whose class is recognized."""
    images, labels = zip(*map(Images(count, seed=2).__getitem__, range(count)))
    model.eval()
    with torch.no_grad():
        hits = (model(torch.stack(images)).argmax(1) == torch.tensor(labels)).float().mean().item()
    model.train()
    return hits
