"""The digits in the two-line interface, each step with a closure that makes the backward pass, as Lightning has it. A rate
that halves with each epoch, times the run's factor."""

import torch
from torch import nn
from torch.nn import functional

import elastictrain.torch
from torch_program import Digits

if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    run = elastictrain.torch.elastic(model, optimizer, Digits("tra"), batch=32, epochs=1 << 20, state={"scheduler": scheduler})
    for epoch in run.epochs():
        for images, labels in run:
            def closure():
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(images), labels)
                loss.backward()
                return loss

            optimizer.step(closure)
        scheduler.step()
        if run.outcome == "running":
            run.note("factor", run.session.learning_rate_factor)
            assert abs(optimizer.param_groups[0]["lr"] / (0.1 * 0.9 ** (epoch + 1)) - 1) < 1e-6, f"a rate of {optimizer.param_groups}"
