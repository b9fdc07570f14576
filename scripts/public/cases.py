"""The public scripts that are known: where each is in its repository, how it is started, what it leaves."""

from dataclasses import dataclass, field
from typing import Callable, Dict, List, Sequence, Tuple

import material


@dataclass
class Case:
    name: str
    repository: str  # OWNER/NAME, as the folder under the one that the command is given
    folder: str  # of the repository, copied for each run; the script starts there
    script: Sequence[str]  # the script, or -m and a module
    arguments: Sequence[str]
    make: Callable[[str], None] = lambda folder: None  # data and models, in the folder of the run
    paths: Sequence[str] = ()  # of the repository, for PYTHONPATH
    batch: int = 0  # of one worker: `--batch` of elastictrain
    rewritten: Sequence[str] = ()  # files that the script writes again and again; each holds the model at the end
    once: Sequence[str] = ()  # files that the script writes once each
    counter: str = ""  # regular expression: a number that the script prints, each once and in order
    needs_gpu: bool = False
    loss_varies: bool = True  # false: the script's loss says nothing
    environment: Dict[str, str] = field(default_factory=dict)
    elastic_arguments: Dict[str, List[str]] = field(default_factory=dict)  # what --torch replaces: option -> words
    rates: str = "steps"  # "steps": the rate follows the number of the step; "lengths": the length of an epoch, too


def tutorial(name: str, script: str) -> Case:
    return Case(name, "pytorch/examples", "distributed/ddp-tutorial-series", [script], ["6", "1", "--batch_size", "32"],
                batch=32, rewritten=["snapshot.pt"], counter=r"^(?:\[[^]]*\] )?Epoch (\d+) \| Training snapshot",
                needs_gpu=True, loss_varies=False)


def gpt_pictures(folder: str) -> None:
    material.tokens(folder, "data/tiny/train.bin", "data/tiny/val.bin")
    material.write(folder, "data/tiny/meta.pkl", b"\x80\x04}\x94\x8c\nvocab_size\x94K@s.")


def stories(folder: str) -> None:
    material.tokens(folder, "data/tok64/data00.bin", "data/tok64/data01.bin")


def imagenet_data(folder: str) -> None:
    material.image_folders(folder, train=128, validation=8)


def clip_data(folder: str) -> None:
    material.captions(folder)
    material.clip_model(folder)


def pets(folder: str) -> None:
    material.named_images(folder, 3200)
    material.stub(folder, "timm", material.PRETRAINED)


def sentence_pairs(folder: str) -> None:
    material.sentence_pairs(folder, 960, 32)
    material.classifier(folder, "bert-base-cased")
    material.stub(folder, "evaluate", material.EVALUATE)


def conversations(folder: str) -> None:
    material.language_model(folder)
    material.conversations(folder, 320)


def preferences(folder: str) -> None:
    material.language_model(folder)
    material.conversations(folder, 320, is_preference=True)


TRL = ["--model_name_or_path", "model", "--dataset_name", "data", "--output_dir", "out", "--num_train_epochs", "3",
       "--per_device_train_batch_size", "4", "--learning_rate", "1e-3", "--logging_steps", "5", "--report_to", "none",
       "--use_cpu", "true", "--bf16", "false", "--gradient_checkpointing", "false", "--max_length", "32",
       "--gradient_accumulation_steps", "1", "--save_strategy", "epoch"]
NANO = ["--compile=False", "--dtype=float32", "--batch_size=4", "--eval_iters=2", "--eval_interval=40", "--max_iters=160",
        "--warmup_iters=10", "--gradient_accumulation_steps=6", "--always_save_checkpoint=True", "--out_dir=out",
        "--learning_rate=1e-2"]

CASES: Tuple[Case, ...] = (
    tutorial("multigpu_torchrun", "multigpu_torchrun.py"),
    tutorial("multinode", "multinode.py"),
    Case("mingpt-ddp", "pytorch/examples", "distributed/minGPT-ddp/mingpt", ["main.py"],
         ["data_config.path=text.txt", "data_config.block_size=16", "data_config.truncate=1.0", "gpt_config.n_layer=1",
          "gpt_config.n_head=2", "gpt_config.n_embd=16", "trainer_config.max_epochs=3", "trainer_config.batch_size=16",
          "trainer_config.data_loader_workers=0", "trainer_config.save_every=1", "trainer_config.use_amp=false"],
         make=material.text, batch=16, rewritten=["gpt_snapshot.pt"], counter=r"Snapshot saved at epoch (\d+)", needs_gpu=True),
    Case("imagenet", "pytorch/examples", "imagenet", ["main.py"],
         ["-a", "shufflenet_v2_x0_5", "-b", "2", "--epochs", "4", "-j", "0", "--dist-url", "env://", "--dist-backend", "gloo",
          "-p", "8", "--lr", "0.01", "images"],
         make=imagenet_data, batch=2, rewritten=["checkpoint.pth.tar"], needs_gpu=True),
    Case("nanogpt", "karpathy/nanoGPT", ".", ["train.py"],
         [*NANO, "--dataset=tiny", "--n_layer=1", "--n_head=2", "--n_embd=16", "--block_size=16", "--lr_decay_iters=160"],
         make=gpt_pictures, rewritten=["out/ckpt.pt"], counter=r"iter (\d+): loss", needs_gpu=True),
    Case("llama2.c", "karpathy/llama2.c", ".", ["train.py"],
         [*NANO, "--vocab_source=custom", "--vocab_size=64", "--dim=16", "--n_layers=1", "--n_heads=2", "--n_kv_heads=2",
          "--max_seq_len=16"],
         make=stories, rewritten=["out/ckpt.pt"], counter=r"^(?:\[[^]]*\] )?(\d+) \| loss", needs_gpu=True),
    Case("timm", "huggingface/pytorch-image-models", ".", ["train.py"],
         ["--data-dir", "images", "--model", "test_resnet", "--input-size", "3", "64", "64", "-b", "4", "-vb", "4", "--epochs",
          "5", "--num-classes", "2", "--device", "cpu", "--workers", "1", "--sched", "cosine", "--warmup-epochs", "1", "--opt",
          "adamw", "--lr", "1e-3", "--model-ema", "--output", "out", "--experiment", "x", "--log-interval", "8",
          "--no-prefetcher"],
         make=material.image_folders, batch=4, rewritten=["out/x/last.pth.tar"], once=["out/x/checkpoint-*.pth.tar"],
         needs_gpu=True, rates="lengths"),
    Case("open_clip", "mlfoundations/open_clip", "src", ["-m", "open_clip_train.main"],
         ["--train-data", "captions.csv", "--dataset-type", "csv", "--model", "local-dir:clip", "--batch-size", "4", "--epochs",
          "5", "--workers", "0", "--device", "cpu", "--precision", "fp32", "--name", "x", "--lr", "1e-3", "--warmup", "10",
          "--log-every-n-steps", "8"],
         make=clip_data, batch=4, once=["logs/x/checkpoints/epoch_*.pt"], needs_gpu=True, rates="lengths"),
    Case("accelerate-cv", "huggingface/accelerate", "examples", ["complete_cv_example.py"],
         ["--data_dir", "images", "--cpu", "--checkpointing_steps", "epoch", "--output_dir", "out"],
         make=pets, batch=64, once=["out/epoch_*/model.safetensors"], rates="lengths"),
    Case("accelerate-nlp", "huggingface/accelerate", "examples", ["complete_nlp_example.py"],
         ["--cpu", "--checkpointing_steps", "epoch", "--output_dir", "out"],
         make=sentence_pairs, batch=16, once=["out/epoch_*/model.safetensors"], rates="lengths"),
    Case("trl-sft", "huggingface/trl", "trl/scripts", ["sft.py"], TRL, make=conversations, paths=["."], batch=4,
         rewritten=["out/model.safetensors"], once=["out/checkpoint-*/model.safetensors"], rates="lengths"),
    Case("trl-dpo", "huggingface/trl", "trl/scripts", ["dpo.py"], TRL, make=preferences, paths=["."], batch=4,
         rewritten=["out/model.safetensors"], once=["out/checkpoint-*/model.safetensors"], rates="lengths"),
    Case("lightning", "Lightning-AI/pytorch-lightning", "examples", ["pytorch/basics/autoencoder.py"],
         ["--data.batch_size", "512", "--trainer.max_epochs", "3", "--trainer.accelerator", "cpu", "--trainer.devices", "2",
          "--trainer.strategy", "ddp"],
         make=material.digits, batch=512, rewritten=["lightning_logs/*/checkpoints/*.ckpt"],
         environment={"PL_USE_MOCKED_MNIST": "1"}),
)
