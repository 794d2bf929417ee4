#!/usr/bin/env python3
"""One rank of Python's DistributedDataParallel over Gloo, to compare with; bench/training.py starts it. The
models are those of bench/training_models.h. One batch stays in memory for the whole training; nothing is
loaded, counted or logged. Requests: "time STEPS UNTIMED", "end".

    ddp.py MODEL GLOBAL_BATCH LEARNING_RATE RANK RANKS STORE OPTIMISER"""

import datetime
import json
import os
import resource
import socket
import sys
import time

import torch
from torch import distributed, nn
from torch.distributed.optim import ZeroRedundancyOptimizer


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer))
        self.second = nn.Sequential(nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
        self.shortcut = None
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        change = self.second(torch.relu(self.first(x)))
        return torch.relu(change + (x if self.shortcut is None else self.shortcut(x)))


def resnet():
    layers, inner = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for stage in range(4):
        outer = 64 << stage
        for block in range(2):
            layers.append(Block(inner, outer, 2 if stage > 0 and block == 0 else 1))
            inner = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 10))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(1000, 256)
        self.places = nn.Parameter(0.02 * torch.randn(128, 256))
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0), 6)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.layers((self.tokens(x) + self.places).transpose(0, 1)).mean(0))


OPTIMISERS = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "sharded-adam": lambda parameters, lr: ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=lr),
}
MODELS = {  # how it is made, and the shape of an example
    "cnn": (lambda: nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                  nn.Linear(32 * 13 * 13, 64), nn.ReLU(), nn.Linear(64, 10)), (1, 28, 28)),
    "mlp": (lambda: nn.Sequential(nn.Linear(784, 3072), nn.ReLU(), nn.Linear(3072, 3072), nn.ReLU(),
                                  nn.Linear(3072, 3072), nn.ReLU(), nn.Linear(3072, 1024), nn.ReLU(),
                                  nn.Linear(1024, 10)), (784,)),
    "resnet": (resnet, (3, 32, 32)),
    "transformer": (Transformer, (128,)),
}


def main():
    name, global_batch, learning_rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    rank, ranks, store = int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make, shape = MODELS[name]
    share = global_batch // ranks
    labels = torch.randint(0, 10, (share,))
    x = torch.randint(0, 1000, (share, *shape)) if name == "transformer" else torch.rand(share, *shape)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
                                   timeout=datetime.timedelta(seconds=60))
    model = nn.parallel.DistributedDataParallel(make(), gradient_as_bucket_view=True)
    optimiser = OPTIMISERS[sys.argv[7]](model.parameters(), lr=learning_rate)
    criterion = nn.CrossEntropyLoss()

    def run(steps):
        for _ in range(steps):
            optimiser.zero_grad()
            criterion(model(x), labels).backward()
            optimiser.step()

    control = socket.socket(socket.AF_UNIX)
    control.connect(os.environ["BENCH_CONTROL"])
    control.settimeout(600)
    stream = control.makefile("rw")

    def answer(line):
        stream.write(json.dumps(line) + "\n")
        stream.flush()

    answer({"rank": rank, "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "torch": torch.__version__})
    for line in stream:
        words = line.split()
        if words[0] == "end":
            break
        run(int(words[2]))
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        run(int(words[1]))
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        answer({"seconds": seconds / int(words[1]), "cpu_seconds": cpu / int(words[1]),
                "page_faults": (after.ru_minflt - before.ru_minflt) / int(words[1])})
    distributed.destroy_process_group()
    answer({"peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
    stream.close()
    os._exit(0)  # pylint: disable=protected-access  # Gloo's threads may outlive the interpreter


main()
