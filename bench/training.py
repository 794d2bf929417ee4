#!/usr/bin/env python3
"""Training steps: Troupe through its whole framework against loops written by hand and Python's
DistributedDataParallel of the same LibTorch, four models, in the same rounds. One compute thread for each worker.

    bench/training.py [--models cnn mlp resnet transformer paced adam] [--build build/release | --torch pip] [--json FILE]

Python trains as installed and with the allocator set as Troupe sets it for itself: without, page faults alone decide on some
machines. Before the measurement Troupe's first losses are compared with those of the loop by hand. "paced" is the mlp on a
link that carries 1.2 GB/s, "adam" the mlp by Adam, its state whole and divided; they, and the rows with overlap forced,
are there where this build can do them."""

import dataclasses
import json
import statistics
import sys

import ensemble
import trainings

# glibc keeps freed memory instead of giving it back and faulting it in again in every step, and
# asks for huge pages.
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4294967296",
          "MALLOC_TOP_PAD_": "33554432", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
LEARNING_RATE = 1e-4
GIGABYTES_PER_SECOND = 1.2  # of the paced link


@dataclasses.dataclass(frozen=True)
class Model:
    name: str  # as the programs know it
    title: str
    batch: int  # of a step, over both workers
    rounds: int
    steps: int  # of a round
    untimed: int = 1
    same_losses: float = 1e-4  # relative


MODELS = {
    "cnn": Model("cnn", "MNIST CNN of the article, global batch 64", 64, rounds=15, steps=40, untimed=2),
    "mlp": Model("mlp", "MLP of 25 million parameters, 16 examples for each worker", 32, rounds=5, steps=4),
    "resnet": Model("resnet", "ResNet-18, 32 examples for each worker", 64, rounds=3, steps=2),
    "transformer": Model("transformer", "Transformer of six layers, 8 sequences of 128 tokens for each worker", 16, rounds=5, steps=2),
    "paced": Model("mlp", f"The MLP on a link paced to {GIGABYTES_PER_SECOND} GB/s", 32, rounds=5, steps=4),
    "adam": Model("mlp", "The MLP by Adam, 16 examples for each worker", 32, rounds=9, steps=4),
}
LABELS = {
    "tcp": "2 workers, Troupe multi-worker, TCP", "tcp_on": "the same, overlap on",
    "tcp_off": "the same, overlap off", "automatic": "2 workers, Troupe multi-worker, automatic transport",
    "mirrored": "2 replicas, Troupe mirrored", "gloo": "2 workers, by hand, Gloo",
    "ddp": "2 workers, Python DDP, Gloo", "ddp_malloc": "the same, allocator set alike",
    "alone": "1 worker, half of the batch, by hand", "pair": "2 of them beside each other, not connected",
    "in_step": "the same, each waits for the other",
    "one_device": "1 worker, Troupe one-device", "bare": "1 worker, by hand",
    "paced_on": "2 workers, overlap on", "paced_off": "2 workers, overlap off",
    "ddp_adam": "2 workers, Python DDP, Gloo", "ddp_adam_malloc": "the same, allocator set alike",
    "zero": "2 workers, Python DDP, ZeroRedundancyOptimizer", "zero_malloc": "the same, allocator set alike",
    "whole": "2 workers, Troupe multi-worker, automatic transport", "sharded": "the same, --shard-optimizer",
    "whole_tcp": "2 workers, Troupe multi-worker, TCP", "sharded_tcp": "the same, --shard-optimizer",
    "whole_mirrored": "2 replicas, Troupe mirrored", "sharded_mirrored": "the same, --shard-optimizer"}
SHORT = {"ddp": "Python DDP, as installed", "ddp_malloc": "Python DDP, allocator set alike", "gloo": "by hand, Gloo",
         "ddp_adam": "Python DDP, as installed", "ddp_adam_malloc": "Python DDP, allocator set alike",
         "zero": "ZeroRedundancyOptimizer, as installed", "zero_malloc": "ZeroRedundancyOptimizer, allocator set alike",
         "pair": "two not connected", "in_step": "two in step", "tcp": "Troupe, TCP", "automatic": "Troupe, automatic",
         "mirrored": "Troupe, mirrored"}
TWO_WORKERS = ("tcp", "tcp_on", "tcp_off", "automatic", "mirrored", "gloo", "paced_on", "paced_off",
               *(way + by for by in ("", "_tcp", "_mirrored") for way in ("whole", "sharded")))


class Cast:
    """Starts the ways to train one model. Troupe sets its memory up by itself; the loops by hand are told."""

    def __init__(self, stage, options, model, has_gloo):
        self.stage, self.model, self.has_gloo, self.interpreter = stage, model, has_gloo, options.python
        self.program = trainings.need(options.build / "bench/bench_training")
        self.loop = trainings.need(options.build / "bench/bench_loop")
        self.tool = trainings.need(options.build / "troupe")
        self.flags = trainings.output_of([self.program, "--help-all"])
        self.ways = {}

    def troupe(self, name, *flags, workers=1):
        """Left out where this build lacks a flag."""
        lacks = [flag for flag in flags if f"{flag.split('=')[0]} " not in self.flags]
        if lacks:
            print(f"left out, no {lacks[0]} in this build: {LABELS[name]} ({name})", file=sys.stderr)
            return
        command = [self.program, "--model", self.model.name, "--batch-size", str(self.model.batch), "--epochs",
                   "100000", "--learning-rate", str(LEARNING_RATE), "--momentum", "0", "--threads", "1", *flags]
        self.ways[name] = self.stage.start(
            LABELS[name], [ensemble.Command(trainings.on_workers(self.tool, workers, command))], workers)

    def by_hand(self, name, batch, processes=1, connected=False, in_step=False):
        """Not connected, each of them trains by itself; in step, two wait for each other in every step."""
        store = str(self.stage.folder / f"store_{name}")
        commands = [ensemble.Command([self.loop, self.model.name, batch, LEARNING_RATE, rank if connected else 0,
                                      processes if connected else 1,
                                      store if connected else f"in-step:{rank}:{store}" if in_step else "-"])
                    for rank in range(processes)]
        self.ways[name] = self.stage.start(LABELS[name], commands, **MALLOC)

    def python(self, name, optimiser="sgd"):
        """As installed, and with the allocator set."""
        if self.interpreter is None:
            return
        script = trainings.ROOT / "bench/peers/ddp.py"
        for way, variables in ((name, {}), (f"{name}_malloc", MALLOC)):
            store = str(self.stage.folder / f"store_{way}")
            self.ways[way] = self.stage.start(
                LABELS[way], [ensemble.Command([self.interpreter, script, self.model.name, self.model.batch, LEARNING_RATE,
                                                rank, 2, store, optimiser]) for rank in range(2)], **variables)

    def everyone(self):
        half = self.model.batch // 2
        self.troupe("tcp", "--transport=tcp", workers=2)
        self.troupe("tcp_on", "--transport=tcp", "--overlap=on", workers=2)
        self.troupe("tcp_off", "--transport=tcp", "--overlap=off", workers=2)
        self.troupe("automatic", workers=2)
        self.troupe("mirrored", "--strategy=mirrored", "--devices=cpu:0-1")
        if self.has_gloo:
            self.by_hand("gloo", self.model.batch, 2, connected=True)
        self.python("ddp")
        self.troupe("one_device", "--strategy=one-device")
        self.by_hand("bare", self.model.batch)
        self.by_hand("alone", half)
        self.by_hand("pair", half, 2)
        self.by_hand("in_step", half, 2, in_step=True)
        return self.ways

    def on_a_paced_link(self):
        pace = f"--pace={GIGABYTES_PER_SECOND}"  # what sums cost beside it: as little as this machine can
        self.troupe("paced_on", pace, "--overlap=on", workers=2)
        self.troupe("paced_off", pace, "--overlap=off", workers=2)
        return self.ways

    def by_adam(self):
        for by, flags, workers in (("", (), 2), ("_tcp", ("--transport=tcp",), 2),
                                   ("_mirrored", ("--strategy=mirrored", "--devices=cpu:0-1"), 1)):
            self.troupe("whole" + by, "--adam", *flags, workers=workers)
            self.troupe("sharded" + by, "--adam", "--shard-optimizer", *flags, workers=workers)
        self.python("ddp_adam", "adam")
        self.python("zero", "sharded-adam")
        return self.ways


def check(model, ways):
    """All have as many parameters; those that train alike have the same losses."""
    counts = {name: way.hello[0]["parameters"] for name, way in ways.items()}
    if len(set(counts.values())) != 1:
        raise trainings.Failed(f"{model.title}: these are not the same model: {counts}")
    same = [name for name in ways if name in TWO_WORKERS]
    losses = {name: ways[name].ask("losses", 4)[0]["losses"] for name in same}
    for name in same[1:]:
        for ours, theirs in zip(losses[name], losses[same[0]]):
            if abs(ours - theirs) > model.same_losses * (1 + abs(theirs)):
                raise trainings.Failed(f"{model.title}: {name} and {same[0]} train differently: {losses}")


def comparisons(seconds):
    """(what, values by round, unit) of what was measured."""
    rows = []

    def faster(name, other, label):
        if name in seconds and other in seconds:
            rows.append((f"samples/s, {label}", ensemble.ratios(seconds[other], seconds[name]), "x"))

    for name in ("tcp", "automatic", "mirrored"):
        for other in ("ddp", "ddp_malloc", "gloo"):
            faster(name, other, f"{SHORT[name]} / {SHORT.get(other)}")
    for name, other in (("automatic", "in_step"), ("tcp", "automatic"), ("mirrored", "automatic")):
        faster(name, other, f"{SHORT[name]} / {SHORT[other]}")
    for name in ("pair", "in_step", "tcp", "automatic", "mirrored", "gloo", "ddp", "ddp_malloc"):
        if name in seconds and "alone" in seconds:
            percent = [100 * ratio for ratio in ensemble.ratios(seconds["alone"], seconds[name])]
            rows.append((f"efficiency, {SHORT[name]} / (2 x alone)", percent, " %"))
    faster("one_device", "bare", "Troupe one-device / by hand")
    if "one_device" in seconds and "bare" in seconds:
        rows.append(("added to a step, Troupe one-device - by hand",
                     [1e6 * (ours - bare) for ours, bare in zip(seconds["one_device"], seconds["bare"])], " us"))
    for by, label in (("", "automatic"), ("_tcp", "TCP"), ("_mirrored", "mirrored")):
        faster(f"sharded{by}", f"whole{by}", f"{label}, optimiser sharded / whole")
    for other in ("ddp_adam", "ddp_adam_malloc"):
        faster("whole", other, f"automatic, optimiser whole / {SHORT[other]}")
    for other in ("ddp_adam", "ddp_adam_malloc", "zero", "zero_malloc"):
        faster("sharded", other, f"automatic, optimiser sharded / {SHORT[other]}")
    for name in ("tcp", "paced"):
        faster(f"{name}_on", f"{name}_off", "overlap on / off")
    return rows


def print_states(ways, states):
    """What of the optimiser's state the fullest replica keeps."""
    print()
    trainings.print_table(["what trains", "MiB of the optimiser's state on a replica"],
                          [[LABELS[name], f"{states[name] / (1 << 20):.1f}"] for name in ways if states[name]])


def print_tables(model, facts, seconds, kernel, peaks):
    python = f" (Python's: {facts['python_torch']})" if facts["python_torch"] else ""
    print(f"\n### {model.title}\n\nLibTorch {facts['libtorch']}{python}, {facts['cpu']}, {facts['date'][:10]}\n")
    rows = []
    for name, values in seconds.items():
        examples = model.batch // 2 if name == "alone" else model.batch
        rows.append([LABELS[name], ensemble.range_text([examples / value for value in values]),
                     ensemble.time_text(values),
                     *(ensemble.number_text(statistics.median(kernel[name][what]) * factor)
                       for what, factor in (("cpu_seconds", 1e3), ("page_faults", 1))),
                     f"{max(peaks[name]) >> 20}"])
    trainings.print_table(["what trains", "samples/s", "time of a step", "its processor ms", "page faults",
                           "peak MiB of a process"], rows)
    rows = [[label, ensemble.range_text(values, unit)] for label, values, unit in comparisons(seconds)]
    if rows:
        print()
        trainings.print_table(["compared", "median of the rounds [min-max]"], rows)
    sys.stdout.flush()


def measure(options, key, facts):
    model = MODELS[key]
    if options.smoke:
        model = dataclasses.replace(model, rounds=1, steps=1, untimed=0)
    elif options.rounds:
        model = dataclasses.replace(model, rounds=options.rounds)
    with ensemble.Stage() as stage:
        cast = Cast(stage, options, model, "c10d" in facts["gloo"])
        ways = {"paced": cast.on_a_paced_link, "adam": cast.by_adam}.get(key, cast.everyone)()
        if not ways:
            return None
        stage.ready()
        check(model, ways)
        turns = [(name, lambda way=way: max(way.ask("time", model.steps, model.untimed),
                                            key=lambda answer: answer["seconds"])) for name, way in ways.items()]
        if not options.smoke:
            ensemble.one_round(turns, 0)  # warms up
        answers, stolen = ensemble.measure(turns, model.rounds, 0 if options.smoke else trainings.RETAKES)
        farewells = {name: way.end() for name, way in ways.items()}
    peaks = {name: [farewell["peak_rss_bytes"] for farewell in all_of] for name, all_of in farewells.items()}
    states = {name: max(farewell.get("optimizer_bytes", 0) for farewell in all_of) for name, all_of in farewells.items()}
    seconds = {name: [answer["seconds"] for answer in rounds] for name, rounds in answers.items()}
    kernel = {name: {what: [answer[what] for answer in rounds] for what in ("cpu_seconds", "page_faults")}
              for name, rounds in answers.items()}
    print_tables(model, facts, seconds, kernel, peaks)
    if key == "adam":
        print_states(ways, states)
    print(f"\n{ensemble.stolen_line([stolen])}", flush=True)
    return {"model": key, "title": model.title, "global_batch": model.batch, "rounds": model.rounds,
            "steps_of_a_round": model.steps, "seconds_per_step": seconds, "kernel_per_step": kernel, "peak_rss_bytes": peaks,
            "optimizer_bytes": states,
            "stolen_percent": stolen}


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    parser.set_defaults(rounds=0)
    trainings.add_python(parser)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()
    if options.smoke and options.models == list(MODELS):
        options.models = ["cnn"]
    facts = json.loads(trainings.output_of(
        [trainings.need(options.build / "bench/bench_all_reduce"), "--facts"]))
    options.python, facts["python_torch"] = trainings.peer_of(options)
    print(f"## Training, one compute thread for each worker\n\n{trainings.machine_line(facts)}\n\n"
          f"Gloo: {facts['gloo']}")
    reports = [measure(options, key, facts) for key in options.models]
    trainings.write_json(options.json, {"benchmark": "training", "machine": facts,
                                        "models": [report for report in reports if report]})


trainings.run_main(main)
