"""What a program of a replica holds, whole, under the names of checkpoints."""

import torch


def save(run, model, optimizer, path):
    held = dict(model.state_dict())
    for name, parameter in model.named_parameters():
        held.update({f"optimizer/{name}/{key}": value for key, value in optimizer.state[parameter].items()})
    whole = {name: getattr(value, "full_tensor", value.clone)() for name, value in held.items()}
    if run.is_first:
        torch.save({name: value.cpu() for name, value in whole.items()}, path)
