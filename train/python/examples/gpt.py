"""What the programs on text share: a small GPT over characters, and the text in pieces."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

CONTEXT = 64  # characters
WIDTH, HEADS, LAYERS = 128, 4, 4


class Text(Dataset):
    """Pieces of a text: CONTEXT characters, and for each the one that follows. As int64 tensors of shape (CONTEXT,)."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.characters = sorted(set(text))
        place = {character: number for number, character in enumerate(self.characters)}
        self.codes = torch.tensor([place[character] for character in text])

    def __len__(self):
        return (len(self.codes) - 1) // CONTEXT

    def __getitem__(self, index):
        piece = self.codes[index * CONTEXT:(index + 1) * CONTEXT + 1]
        return piece[:-1], piece[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.attention(self.first(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class GPT(nn.Module):
    """Codes of shape (batch, length) to logits of shape (batch, length, characters)."""

    def __init__(self, characters):
        super().__init__()
        torch.manual_seed(0)
        self.token, self.position = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, codes):
        x = self.token(codes) + self.position(torch.arange(codes.shape[1], device=codes.device))
        return self.head(self.norm(self.blocks(x)))


def loss_of(model, codes, following):
    return functional.cross_entropy(model(codes).flatten(0, 1), following.flatten())
