#!/usr/bin/env python3
"""What Troupe promises about its speed, and what the benchmarks measured: one row for each promise, from the JSON
files that they left. A row whose benchmark has not run, or whose peer is missing, says so.

    bench/verdict.py [--build build/release]

Where a promise is about several sizes the row shows the one that comes out worst."""

import argparse
import dataclasses
import json
import pathlib
import statistics
import typing

import ensemble
import trainings

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Promise:
    work: str
    against: str
    least: float  # at least; with `most`, at most
    values: typing.Callable  # of a Results: {what: values by round}; KeyError where it was not measured
    unit: str = "x"
    most: bool = False


class Results:
    """The reports of a build folder."""

    def __init__(self, folder):
        self._reports = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}

    def report(self, name):
        return self._reports[name]

    def all_reduce(self, ranks, sizes, ours, theirs):
        """Ratios by size: time of `theirs` / time of `ours`."""
        for part in self._reports["all_reduce"]["ranks"]:
            if part["ranks"] == ranks:
                seconds = {result["bytes"]: result["seconds"] for result in part["results"]}
                return {ensemble.bytes_text(size): ensemble.ratios(seconds[size][theirs], seconds[size][ours])
                        for size in sizes}
        raise KeyError(ranks)

    def training(self, model):
        for part in self._reports["training"]["models"]:
            if part["model"] == model:
                return part["seconds_per_step"]
        raise KeyError(model)

    def pipeline(self):
        rates = {name: result["samples_per_second"] for name, result in self._reports["data"]["results"].items()}
        return {"": ensemble.ratios(rates["troupe"], rates["torch_data"])}

    def started(self, what, key="seconds"):
        """By round, of a row of start_up.py whose label begins so."""
        for row in self._reports["start_up"]["rows"]:
            if row["what"].startswith(what):
                return [run[key] for run in row["runs"]]
        raise KeyError(what)

    def faster(self, model, ours, theirs):
        seconds = self.training(model)
        return {model: ensemble.ratios(seconds[theirs], seconds[ours])}

    def efficiency(self, model, names):
        """Percent of two workers like the one alone; the other name of each is what it is compared with."""
        seconds = self.training(model)
        return {name: [100 * ratio for ratio in ensemble.ratios(seconds["alone"], seconds[name])] for name in names}

    def better_choice(self, models):
        """Percent of the better of overlap on and off that automatic reaches."""
        found = {}
        for model in models:
            seconds = self.training(model)
            forced = min((seconds["tcp_on"], seconds["tcp_off"]), key=statistics.median)
            found[model] = [100 * ratio for ratio in ensemble.ratios(forced, seconds["tcp"])]
        return found


SMALL = (4, KIB, 16 * KIB)
ALL = (4, KIB, 16 * KIB, 128 * KIB, MIB, 8 * MIB, 64 * MIB, 256 * MIB)


def all_reduce(work, against, least, ranks, sizes, ours, theirs, unit="x"):
    def values(results):
        found = results.all_reduce(ranks, sizes, ours, theirs)
        return {size: [100 * value for value in ratios] for size, ratios in found.items()} if unit == " %" else found
    return Promise(work, against, least, values, unit)


def faster(work, against, least, model, ours, theirs):
    return Promise(work, against, least, lambda results: results.faster(model, ours, theirs))


def efficiency(work, least, model, names):
    return Promise(work, "2 x (1 worker, half of the batch)", least,
                   lambda results: results.efficiency(model, names), " %")


def added_microseconds(results):
    seconds = results.training("cnn")
    return {"cnn": [1e6 * (ours - bare) for ours, bare in zip(seconds["one_device"], seconds["bare"])]}


def milliseconds(what, but=None):
    """Of what begins so; without those of `but`, a process that does nothing."""
    def values(results):
        rest = results.started(but) if but else [0] * len(results.started(what))
        return {"": [1e3 * (ours - other) for ours, other in zip(results.started(what), rest)]}
    return values


def started(ours, theirs, key="seconds", faster_is_more=False):
    def values(results):
        pair = [results.started(what, key) for what in (ours, theirs)]
        return {"": ensemble.ratios(*(reversed(pair) if faster_is_more else pair))}
    return values


GLOO = "c10d Gloo"
FIRST_STEP = "examples/mnist, first step"
IMPORT = "import torch"
PROMISES = (
    all_reduce("all-reduce 4 B to 16 KiB, 2 ranks, TCP", GLOO, 20, 2, SMALL, "tcp", "gloo"),
    all_reduce("128 KiB to 1 MiB, 2 ranks, TCP", GLOO, 5, 2, (128 * KIB, MIB), "tcp", "gloo"),
    all_reduce("8 MiB, 2 ranks, TCP", GLOO, 3.5, 2, (8 * MIB,), "tcp", "gloo"),
    all_reduce("64 MiB, 2 ranks, TCP", GLOO, 2.8, 2, (64 * MIB,), "tcp", "gloo"),
    all_reduce("256 MiB, 2 ranks, TCP", GLOO, 2.2, 2, (256 * MIB,), "tcp", "gloo"),
    all_reduce("every size, 2 ranks, TCP", "Open MPI, btl tcp", 1.0, 2, ALL, "tcp", "mpi_tcp"),
    all_reduce("64 MiB, 2 ranks, TCP", "Open MPI, btl tcp", 2.0, 2, (64 * MIB,), "tcp", "mpi_tcp"),
    all_reduce("8 MiB, 2 ranks, TCP", "both ways over loopback", 85, 2, (8 * MIB,), "tcp", "duplex_tcp", " %"),
    all_reduce("64 MiB, one host, Unix socket", GLOO, 3, 2, (64 * MIB,), "unix_socket", "gloo"),
    all_reduce("64 MiB, one host, shared memory, user's buffer", GLOO, 5, 2, (64 * MIB,), "shared_memory", "gloo"),
    all_reduce("64 MiB, one host, shared memory, in place", GLOO, 12, 2, (64 * MIB,), "in_place", "gloo"),
    all_reduce("every size, one host, automatic", "Open MPI, default", 1.0, 2, ALL, "automatic", "mpi_default"),
    all_reduce("64 MiB, one host, automatic", "Open MPI, default", 2.0, 2, (64 * MIB,), "automatic", "mpi_default"),
    all_reduce("up to 1 MiB, 4 ranks, TCP", GLOO, 8, 4, ALL[:5], "tcp", "gloo"),
    all_reduce("64 MiB, 4 ranks, TCP", GLOO, 1.45, 4, (64 * MIB,), "tcp", "gloo"),
    all_reduce("64 MiB, 4 ranks, automatic", GLOO, 3.3, 4, (64 * MIB,), "automatic", "gloo"),
    faster("MNIST CNN, 2 workers, automatic", "Python DDP, as installed", 1.8, "cnn", "automatic", "ddp"),
    faster("MNIST CNN, 2 workers, automatic", "Python DDP, same allocator settings", 1.45, "cnn", "automatic",
           "ddp_malloc"),
    efficiency("MNIST CNN, 2 workers, TCP", 92, "cnn", ("tcp",)),
    efficiency("MNIST CNN, 2 workers, automatic and mirrored", 94, "cnn", ("automatic", "mirrored")),
    faster("MLP 25 M, 2 workers, automatic", "Python DDP", 1.47, "mlp", "automatic", "ddp"),
    faster("ResNet-18, 2 workers, automatic", "Python DDP", 1.07, "resnet", "automatic", "ddp"),
    efficiency("ResNet-18, 2 workers, automatic", 96, "resnet", ("automatic",)),
    faster("one worker through the whole framework", "loop by hand, same allocator settings", 0.99, "cnn", "one_device",
           "bare"),
    Promise("the same, time added to a step", "loop by hand", 100, added_microseconds, " us", most=True),
    faster("MLP 25 M at 1.2 GB/s, overlap on", "no overlap", 1.3, "paced", "paced_on", "paced_off"),
    Promise("overlap automatic, every model", "the better of on and off", 98,
            lambda results: results.better_choice(("cnn", "mlp", "resnet")), " %"),
    Promise("group of 4 ready after process start", "Python, Gloo", 20,
            started("group of 4 ready, troupe run", "group, Gloo", faster_is_more=True)),
    Promise("the same", "-", 50, milliseconds("group of 4 ready, troupe run"), " ms", most=True),
    Promise("shuffled, normalised MNIST, 1 thread", "torch::data", 10, Results.pipeline),
    Promise("process start to first step", "python3 -c 'import torch'", 0.5, started(FIRST_STEP, IMPORT), most=True),
    Promise("peak memory of it", "python3 -c 'import torch'", 0.75, started(FIRST_STEP, IMPORT, "peak_mib"), most=True),
    Promise("troupe --help", "-", 10, milliseconds("troupe --help"), " ms", most=True),
    Promise("troupe run, 1 x /bin/true", "/bin/true", 10, milliseconds("troupe run", "/bin/true"), " ms", most=True),
)


def judge(promise, results):
    """[work, against, at least, measured, holds]"""
    bound = f"{'at most ' if promise.most else ''}{promise.least:g}{promise.unit}"
    try:
        found = promise.values(results)
    except KeyError:
        return [promise.work, promise.against, bound, "not measured", "-"]
    worst = (max if promise.most else min)(found, key=lambda what: statistics.median(found[what]))
    middle = statistics.median(found[worst])
    holds = middle <= promise.least if promise.most else middle >= promise.least
    measured = ensemble.range_text(found[worst], promise.unit)
    if len(found) > 1:
        measured += f", {worst}"
    return [promise.work, promise.against, bound, measured, "yes" if holds else "no"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=trainings.ROOT / "build/release", help="folder of the build")
    parser.add_argument("--json", type=pathlib.Path, help="the rows go here, too")
    options = parser.parse_args()
    results = Results(options.build / "bench")
    rows = [judge(promise, results) for promise in PROMISES]
    print("## What is promised, and what was measured: median [min-max] of the rounds\n")
    head = ["work", "against", "at least", "measured", "holds"]
    trainings.print_table(head, rows)
    count = {answer: sum(row[-1] == answer for row in rows) for answer in ("yes", "no", "-")}
    print(f"\n{count['yes']} hold, {count['no']} do not, {count['-']} were not measured.")
    trainings.write_json(options.json, {"benchmark": "verdict", "rows": [dict(zip(head, row)) for row in rows]})


trainings.run_main(main)
