#!/usr/bin/env python3
"""Where the time of a training step goes: the four models of training.py by one worker, two workers and two replicas of a
process, each by part of a step.

    bench/steps.py [--models cnn adam resnet transformer] [--rounds 5] [--build build/release] [--json FILE]

The parts are read off the timelines that --profile writes. Recording them costs time itself, so the same process
then takes steps without it: the table shows both. One compute thread for each worker or replica."""

import collections
import dataclasses
import json
import statistics

import ensemble
import trainings

WARM_UP = 3  # steps before those that --profile records


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    batch: int  # of a step, over both workers
    steps: int  # that are looked at in a round
    flags: tuple
    sharded: bool = False  # whether its optimiser is divided, too, wherever there are several replicas


MODELS = {
    "cnn": Model("MNIST CNN of the article, global batch 64", 64, 40, ("--model", "cnn")),
    "adam": Model("MLP of 25 million parameters, Adam, 16 examples for each worker", 32, 8, ("--model", "mlp", "--adam"),
                  sharded=True),
    "resnet": Model("ResNet-18, 32 examples for each worker", 64, 4, ("--model", "resnet")),
    "transformer": Model("Transformer of six layers, 8 sequences of 128 tokens for each worker", 16, 6,
                         ("--model", "transformer")),
}


@dataclasses.dataclass(frozen=True)
class Row:
    label: str
    flags: tuple
    workers: int = 1
    share: int = 1  # of the global batch, as its divisor
    parts: tuple = ()  # that must be in the timeline, beside those of every row


ROWS = (
    Row("1 worker, half of the batch", ("--strategy=one-device",), share=2),
    Row("2 workers, automatic", (), workers=2, parts=("copy", "sum")),
    Row("2 workers, TCP", ("--transport=tcp",), workers=2, parts=("copy", "sum")),
    Row("2 replicas, mirrored", ("--strategy=mirrored", "--devices=cpu:0-1"), parts=("copy", "wait", "sum")),
)
SHARDED = tuple(dataclasses.replace(row, label=f"{row.label}, --shard-optimizer", flags=(*row.flags, "--shard-optimizer"))
                for row in ROWS[1:])
PARTS = ("input", "forward", "backward", "copy", "wait", "sum", "optimiser", "rest")
EVERY_ROW = ("input", "forward", "backward", "optimiser")
# Of the intervals' own time, without what lies in them. Others, such as LibTorch's operators, are of the part around them.
PART_OF = {"wait for batch": "input", "gather batch": "input", "train_step": "forward", "backward": "backward",
           "copy gradient": "copy", "wait for replicas": "wait", "reduce gradients": "sum", "sum over workers": "sum", "gather over workers": "sum",
           "optimizer step": "optimiser", "apply_gradients": "rest", "boundary": "rest"}
COLLECTIVES = ("all_reduce", "all_reduce, compressed", "reduce_scatter", "broadcast", "all_gather", "gather", "meet for all_reduce", "barrier")
# Threads whose time is that of the step, and the one whose sums go on beside it.
STEP, REPLICA, BUCKETS = "step thread", "replica thread", "bucket thread"


@dataclasses.dataclass
class Interval:
    name: str
    start: float  # in microseconds
    length: float
    wait: float = 0  # of a collective: until the last worker has entered it

    @property
    def end(self):
        return self.start + self.length


def threads_of(profile):
    """{worker: [(thread's name, its intervals in the order of their starts)]}"""
    names, intervals = {}, collections.defaultdict(list)
    for event in profile["traceEvents"]:
        thread = (event["pid"], event["tid"])
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[thread] = event["args"]["name"]
        elif event["ph"] == "X":
            intervals[thread].append(Interval(event["name"], event["ts"], event["dur"]))
    workers = collections.defaultdict(list)
    for (worker, number), name in names.items():
        of_thread = sorted(intervals[worker, number], key=lambda interval: (interval.start, -interval.length))
        workers[worker].append((name, of_thread))
    return workers


def find_waits(workers):
    """Workers enter collectives in one order, so the n-th of each worker are one. Nobody's can end before the last has
    come: until then it waits."""
    entered = [sorted((interval for _, intervals in threads for interval in intervals if interval.name in COLLECTIVES),
                      key=lambda interval: interval.start) for threads in workers.values()]
    for together in zip(*entered):
        if len({interval.name for interval in together}) != 1:
            raise trainings.Failed(f"the timelines differ: {[interval.name for interval in together]} are one collective")
        last = max(interval.start for interval in together)
        for interval in together:
            interval.wait = min(interval.length, last - interval.start)


def window_of(workers):
    """From the end of the first recorded step to the end of the last, by worker: whole periods, input included."""
    windows = {}
    for worker, threads in workers.items():
        ends = sorted(interval.end for name, intervals in threads if name == STEP for interval in intervals
                      if interval.name.startswith("step "))
        windows[worker] = (ends[0], ends[-1], len(ends) - 1)
    return windows


def own_times(intervals, begin, end):
    """Microseconds by part, of the intervals of a thread that lie in begin to end: each without those inside of it."""
    total = dict.fromkeys(PARTS, 0.0)
    around = []  # (end, part), the innermost last
    for interval in intervals:
        while around and around[-1][0] <= interval.start:
            around.pop()
        if interval.start < begin or interval.end > end:
            continue
        outer = around[-1][1] if around else None
        part = "sum" if interval.name in COLLECTIVES else PART_OF.get(interval.name, outer or "rest")
        if outer:
            total[outer] -= interval.length
        total[part] += interval.length - interval.wait
        total["wait"] += interval.wait
        around.append((interval.end, part))
    return total


def parts_of(path):
    """Milliseconds of a step, by part; the mean of all threads that train. "step": all of it; "beside": sums of the
    thread that sums while backward computes, which are in none of the parts."""
    workers = threads_of(json.loads(path.read_text()))
    find_waits(workers)
    windows = window_of(workers)
    found, beside = [], 0.0
    for worker, threads in workers.items():
        begin, end, steps = windows[worker]
        for name, intervals in threads:
            if name not in (STEP, REPLICA, BUCKETS):
                continue
            times = {part: value / steps / 1e3 for part, value in own_times(intervals, begin, end).items()}
            if name == BUCKETS:
                beside += (times["sum"] + times["wait"]) / len(workers)
                continue
            period = (end - begin) / steps / 1e3
            # Outside of its hooks a replica waits for the step thread.
            times["wait" if name == REPLICA else "rest"] += period - sum(times.values())
            found.append({"step": period, **times})
    return {**{key: statistics.mean(times[key] for times in found) for key in found[0]}, "beside": beside}


def check(what, parts, expected):
    """A timeline that lacks a part, or has more in it than the time it took, was misread."""
    missing = [part for part in expected if parts[part] <= 0]
    if missing:
        raise trainings.Failed(f"{what}: the timeline has no {', '.join(missing)}")
    negative = [part for part in PARTS if parts[part] < -0.01 * parts["step"]]
    if negative:
        raise trainings.Failed(f"{what}: intervals of {', '.join(negative)} overlap")


def measure(row, model, steps, options):
    """One training: its recorded steps by part, then others that are not recorded."""
    program = trainings.need(options.build.resolve() / "bench/bench_training")
    tool = trainings.need(options.build.resolve() / "troupe")
    recorded = steps + 1  # whole periods begin with the end of the first
    with ensemble.Stage() as stage:
        command = [program, *model.flags, "--batch-size", str(model.batch // row.share), "--epochs", "100000",
                   "--learning-rate", "1e-4", "--momentum", "0", "--threads", "1", "--profile", str(recorded), *row.flags]
        # The timeline is written where the program was started.
        started = ["env", "-C", str(stage.folder), *trainings.on_workers(tool, row.workers, command)]
        way = stage.start(row.label, [ensemble.Command(started)], row.workers)
        stage.ready()
        way.ask("time", 1, WARM_UP + recorded)
        parts = parts_of(next(stage.folder.glob("profile-*.json")))
        parts["unrecorded"] = 1e3 * way.slowest("time", steps, 1)
        way.end()
    check(f"{model.title}, {row.label}", parts, EVERY_ROW + row.parts)
    return parts


def report(model, options):
    steps = 2 if options.smoke else model.steps
    rounds = 1 if options.smoke else options.rounds
    rows = ROWS + SHARDED if model.sharded else ROWS
    results, stolen = trainings.interleaved(rows, rounds, lambda row: measure(row, model, steps, options))
    columns = ("unrecorded", "step", *PARTS, "beside")
    print(f"\n### {model.title}\n")
    trainings.print_table(
        ["ms of a step", "not recorded", "recorded", *PARTS, "beside"],
        [[row.label, *(ensemble.number_text(statistics.median(parts[column] for parts in found)) for column in columns)]
         for row, found in zip(rows, results)])
    print(f"\n{ensemble.stolen_line([stolen])}", flush=True)
    return {"title": model.title, "global_batch": model.batch, "steps_of_a_round": steps, "stolen_percent": stolen,
            "rows": [{"what": row.label, "milliseconds": found} for row, found in zip(rows, results)]}


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0].split(":")[0] + ".")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()
    if options.smoke and options.models == list(MODELS):
        options.models = ["transformer"]  # which no other test trains
    facts = json.loads(trainings.output_of(
        [trainings.need(options.build / "bench/bench_all_reduce"), "--facts"]))
    print(f"## A step by its parts, one compute thread for each worker or replica\n\n{trainings.machine_line(facts)}")
    reports = [report(MODELS[key], options) for key in options.models]
    trainings.write_json(options.json, {"benchmark": "steps", "machine": facts, "models": reports})


trainings.run_main(main)
