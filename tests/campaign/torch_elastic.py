"""A program with elastictrain.torch whose epochs have few steps: it evaluates and compares all workers behind each epoch; its
first worker keeps an average of the weights and a history."""

import torch

import elastictrain.torch
import torch_counts as counts

torch.manual_seed(0)
model = counts.Counted()
average = torch.optim.swa_utils.AveragedModel(model)
history = {"epochs": []}
optimizer = counts.make_optimizer(model)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda epoch: 0.99 ** (epoch % 50), lambda epoch: 1.0])


def check(epoch):
    own = torch.tensor(counts.likeness(model, epoch), dtype=torch.float64)
    low, high = run.reduce(own.clone(), "min"), run.reduce(own.clone(), "max")
    counts.check_alike([low.tolist(), high.tolist()])
    seen = history["epochs"]
    assert seen == sorted(set(seen)) and all(earlier <= epoch for earlier in seen), f"epoch {epoch} after {seen}"


run = elastictrain.torch.elastic(model, optimizer, counts.make_loader(counts.make_data(counts.SAMPLES)), epochs=counts.EPOCHS,
                                 state=elastictrain.torch.State({"scheduler": scheduler}, {"average": average, "history": history}))
for epoch in run.epochs():
    for batch in run:
        optimizer.zero_grad()
        counts.loss_of(model, batch).backward()
        counts.count_each_sample_as_one(model)
        optimizer.step()
        if run.is_first:
            average.update_parameters(model)
    scheduler.step()
    check(epoch)
    if run.is_first:
        history["epochs"] = [*history["epochs"][-9:], epoch]
    if run.reduce(counts.is_over(epoch), "max") > 0:
        break
counts.say_counted(model, epoch)
run.stop()
