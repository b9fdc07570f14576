"""Tiny data, models and stand-ins for packages, made anew for each run; nothing is downloaded."""

import json
import os
import random

WORDS = "the sea is calm and wide a ship goes home with wind from west over the deep blue water at night".split()


def text(folder, characters=2400):
    generator = random.Random(1)
    words = []
    while sum(map(len, words)) + len(words) < characters:
        words.append(generator.choice(WORDS))
    write(folder, "text.txt", " ".join(words)[:characters])


def write(folder, name, content):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
    return path


def write_json_lines(folder, name, rows):
    write(folder, name, "".join(json.dumps(row) + "\n" for row in rows))


def tokens(folder, *names, vocabulary=64, count=4000):
    """Numbers of 16 bit in which the next one follows from the last."""
    import numpy
    for seed, name in enumerate(names):
        generator = numpy.random.default_rng(seed)
        values = (numpy.cumsum(generator.integers(1, 3, count)) % vocabulary).astype(numpy.uint16)
        write(folder, name, values.tobytes())


def picture(value, size):
    import io

    import numpy
    from PIL import Image
    noise = numpy.random.default_rng(value).integers(0, 60, (size, size, 3))
    noise[..., value % 3] += 150 if value % 2 else 60
    stream = io.BytesIO()
    Image.fromarray(noise.astype("uint8")).save(stream, "JPEG")
    return stream.getvalue()


def image_folders(folder, train=256, validation=16, size=64, classes=2):
    """ImageFolder's layout: train/CLASS/N.jpg, val/CLASS/N.jpg."""
    for part, count in (("train", train), ("val", validation)):
        for number in range(count):
            write(folder, f"images/{part}/class{number % classes}/{number}.jpg", picture(number, size))


def named_images(folder, count, size=8):
    """A flat folder CLASS_N.jpg."""
    shown = [picture(number, size) for number in range(8)]
    for number in range(count):
        write(folder, f"images/class{number % 2}_{number}.jpg", shown[number % 8])


def captions(folder, count=256, size=32):
    lines = ["filepath\ttitle"]
    for number in range(count):
        path = write(folder, f"images/{number}.jpg", picture(number, size))
        lines.append(f"{path}\tcolour {number % 3} brightness {number % 2} {WORDS[number % len(WORDS)]}")
    write(folder, "captions.csv", "\n".join(lines) + "\n")


def clip_model(folder):
    """A configuration of open_clip with few parameters."""
    write(folder, "clip/open_clip_config.json", json.dumps({
        "model_cfg": {"embed_dim": 16, "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16,
                                                          "patch_size": 16},
                      "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}},
        "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}))


def tokenizer(folder, name, **special):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<s>", "</s>", ":", "user", "assistant", *dict.fromkeys(WORDS)]
    own = Tokenizer(models.WordLevel({word: number for number, word in enumerate(known)}, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=own, unk_token="[UNK]", pad_token="[PAD]", **special)
    made.chat_template = ("{% for message in messages %}{{ message['role'] + ' : ' + message['content'] + ' </s> ' }}"
                          "{% endfor %}{% if add_generation_prompt %}assistant : {% endif %}")
    made.save_pretrained(os.path.join(folder, name))
    return len(known)


def language_model(folder, name="model"):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    words = tokenizer(folder, name, bos_token="<s>", eos_token="</s>")
    GPT2LMHeadModel(GPT2Config(vocab_size=words, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=4,
                               eos_token_id=5)).save_pretrained(os.path.join(folder, name))


def classifier(folder, name):
    import torch
    from transformers import BertConfig, BertForSequenceClassification
    torch.manual_seed(0)
    words = tokenizer(folder, name, cls_token="[CLS]", sep_token="[SEP]")
    BertForSequenceClassification(BertConfig(vocab_size=words, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                             intermediate_size=32, max_position_embeddings=64)).save_pretrained(
                                                 os.path.join(folder, name))


def sentence(generator, length=5):
    return " ".join(generator.choice(WORDS) for _ in range(length))


def sentence_pairs(folder, train, validation):
    generator = random.Random(2)
    for part, count in (("train", train), ("validation", validation)):
        rows = []
        for number in range(count):
            first = sentence(generator)
            is_same = number % 2 == 0
            rows.append({"sentence1": first, "sentence2": first if is_same else sentence(generator), "label": int(is_same),
                         "idx": number})
        write_json_lines(folder, f"nyu-mll/glue/mrpc/{part}.jsonl", rows)
    write(folder, "nyu-mll/glue/README.md", "---\nconfigs:\n- config_name: mrpc\n  data_files:\n"
          "  - split: train\n    path: mrpc/train.jsonl\n  - split: validation\n    path: mrpc/validation.jsonl\n---\n")


def conversations(folder, count, is_preference=False):
    generator = random.Random(3)
    for part, rows in (("train", count), ("test", 8)):
        made = []
        for _ in range(rows):
            prompt = [{"role": "user", "content": sentence(generator)}]
            answers = [[{"role": "assistant", "content": sentence(generator, 3)}] for _ in range(2)]
            made.append({"prompt": prompt, "chosen": answers[0], "rejected": answers[1]} if is_preference
                        else {"messages": prompt + answers[0]})
        write_json_lines(folder, f"data/{part}.jsonl", made)


def digits(folder, train=60000, test=512):
    """MNIST's files as Lightning's demo keeps them, where its script looks."""
    import torch
    torch.manual_seed(0)
    for part, count in (("training", train), ("test", test)):
        place = os.path.join(folder, "Datasets", "MNIST", "complete")
        os.makedirs(place, exist_ok=True)
        labels = torch.arange(count) % 10
        images = torch.zeros(count, 28, 28, dtype=torch.uint8)
        images[torch.arange(count), labels, :] = 200
        torch.save((images, labels), os.path.join(place, f"{part}.pt"))


EVALUATE = '''"""Stands in for a package whose metrics are downloaded."""


class Metric:
    def __init__(self):
        self.pairs = []

    def add_batch(self, predictions, references):
        self.pairs += list(zip(predictions.tolist(), references.tolist()))

    def compute(self):
        right, count = sum(a == b for a, b in self.pairs), len(self.pairs)
        self.pairs = []
        return {"accuracy": right / max(1, count), "count": count}


def load(*_):
    return Metric()
'''

PRETRAINED = '''"""Stands in for a package whose weights are downloaded: one small network under the name asked for."""
import torch


class Network(torch.nn.Module):
    default_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}

    def __init__(self, classes):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.AvgPool2d(28), torch.nn.Flatten(), torch.nn.Linear(192, 16), torch.nn.ReLU())
        self.head = torch.nn.Linear(16, classes)

    def get_classifier(self):
        return self.head

    def forward(self, images):
        return self.head(self.body(images))


def create_model(name, pretrained=False, num_classes=1000):
    torch.manual_seed(0)
    return Network(num_classes)
'''


def stub(folder, name, content):
    write(folder, f"stubs/{name}.py", content)
