"""A script with transformers.Trainer that knows nothing of elastictrain: a tiny language model on sequences that count up,
logged and scored by steps, saved at the end. ET_EPOCHS is its length, ET_USES names what is special about it, ET_DIVIDED a block
that FSDP2 divides."""

import hashlib
import os
import time

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

LOG_EVERY = int(os.environ.get("ET_LOG_EVERY", "7"))
EPOCHS = float(os.environ.get("ET_EPOCHS", "4"))
USES = os.environ.get("ET_USES", "")
DIVIDED = os.environ.get("ET_DIVIDED", "")


class Counting(Dataset):
    """Sequences of different lengths in steps of one to five."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.starts = torch.randint(0, 32, (count, 2), generator=generator)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        start, step = self.starts[index].tolist()
        ids = (start + (step % 5 + 1) * torch.arange(12)) % 32
        return {"input_ids": ids, "labels": torch.where(torch.arange(12) < 8 + step % 5, ids, -100)}


class Slow(TrainerCallback):
    def on_step_end(self, args, *_, **__):
        time.sleep(0.5 if USES == "resume" and args.world_size == 1 else 0.05)  # until another worker is there


class Saving(TrainerCallback):
    """Notes what each process says of itself."""

    def on_save(self, args, state, control, **_):
        noted = os.open(os.path.join(args.output_dir, "saving"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(noted, f"{state.global_step} {args.should_save} {state.is_world_process_zero}\n".encode())
        os.close(noted)


def digest_of(model):
    hashed = hashlib.blake2b(digest_size=8)
    for tensor in model.state_dict().values():
        hashed.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def main():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=32, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0,
                                       attn_pdrop=0, bos_token_id=0, eos_token_id=0))
    divided = {"fsdp": True, "fsdp_config": {"transformer_layer_cls_to_wrap": DIVIDED}} if DIVIDED else {}
    if USES == "one step":  # in an epoch, so that the order of the samples is of no account
        divided["lr_scheduler_type"] = "constant"
    arguments = TrainingArguments(
        os.environ["ET_SAVED"], num_train_epochs=EPOCHS, per_device_train_batch_size=16,
        gradient_accumulation_steps=2, learning_rate=0.01, logging_steps=LOG_EVERY, eval_strategy="epoch", save_strategy="steps" if USES in ("save", "resume") else "no", save_steps=20,
        per_device_eval_batch_size=64, use_cpu=True, report_to=[], disable_tqdm=USES != "bar", warmup_steps=5, **divided)
    trainer = Trainer(model, arguments, train_dataset=Counting(128 if USES == "one step" else 2000, 1), eval_dataset=Counting(300, 2),
                      callbacks={"slow": [Slow()], "resume": [Slow()], "save": [Saving()]}.get(USES, []))
    trainer.train(resume_from_checkpoint=USES == "resume")
    print(f"rate {trainer.optimizer.param_groups[0]['lr']:.6f} epoch {trainer.state.epoch}", flush=True)
    trainer.save_model()
    scores = trainer.evaluate()
    if trainer.is_world_process_zero():
        print(f"eval {scores['eval_loss']:.4f} after {trainer.state.global_step} steps", flush=True)
        digest = digest_of(model) if not DIVIDED else "parts"
        print(f"ends with {digest} after {trainer.state.global_step} of {trainer.state.max_steps} steps", flush=True)


if __name__ == "__main__":
    main()
