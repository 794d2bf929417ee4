#!/usr/bin/env python3
"""All strategies on one table: MNIST's test accuracy after the same number of examples, and examples
per second of training, for 1, 2 and 4 replicas. Every training has the machine's cores for itself, so a
strategy is fast here when it loses little, not when it has more machines.

    bench/strategies.py [--data-dir mnist] [--build build/release] [--json build/release/bench/strategies.json]

Rates are the batches taken times --batch-size over the seconds of the steps, the same for all rows; with
parameter servers --batch-size is the batch of one update, wherever it was computed. Rows that this build
knows no strategy for are left out, with a line that says so."""

import dataclasses
import sys
import typing

import trainings

COUNTS = (1, 2, 4)


@dataclasses.dataclass(frozen=True)
class Strategy:
    """A row for each of `counts`: replicas or workers, by `flags` or by `workers` and `servers`."""

    label: str
    name: str  # as --strategy has it
    counts: tuple = COUNTS
    flags: typing.Callable = lambda count: []
    workers: typing.Callable = lambda count: 1
    servers: int = 0


STRATEGIES = (
    Strategy("one-device", "one-device", counts=(1,)),
    Strategy("mirrored", "mirrored", flags=lambda count: ["--devices", f"cpu:0-{count - 1}"]),
    Strategy("central-storage", "central-storage", flags=lambda count: ["--devices", f"cpu:0-{count - 1}"]),
    Strategy("multi-worker", "multi-worker", workers=lambda count: count),
    Strategy("parameter-server, synchronous", "parameter-server", workers=lambda count: count, servers=1,
             flags=lambda count: ["--staleness-bound", "0"]),
    Strategy("parameter-server, asynchronous", "parameter-server", workers=lambda count: count,
             servers=1),
)


@dataclasses.dataclass(frozen=True)
class Row:
    strategy: Strategy
    count: int
    command: list

    @property
    def label(self):
        return f"{self.strategy.label}, {self.count}"


def rows_of(options, mnist, tool):
    training = [mnist, "--batch-size", str(options.batch_size), "--max-steps", str(options.steps),
                "--momentum", str(options.momentum), "--data-dir", options.data_dir,
                "--log-every", "0", "--log-level", "warning"]
    if options.smoke:
        training += ["--train-examples", "500"]
    rows = []
    for strategy in STRATEGIES:
        known = trainings.knows(mnist, ["--help-all"], strategy.name)
        if known and strategy.servers:
            known = trainings.knows(tool, ["run", "--help"], "--ps")
        if not known:
            print(f"left out, not in this build: {strategy.label}", file=sys.stderr)
            continue
        counts = [min(2, max(strategy.counts))] if options.smoke else strategy.counts
        for count in counts:
            command = training + ["--strategy", strategy.name] + strategy.flags(count)
            rows.append(Row(strategy, count, trainings.on_workers(tool, strategy.workers(count), command,
                                                                  strategy.servers)))
    return rows


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data-dir", default="synthetic", help="MNIST's four files [generated digits]")
    parser.add_argument("--steps", type=int, default=500, help="of every training")
    parser.add_argument("--batch-size", type=int, default=64, help="examples of a step")
    parser.add_argument("--momentum", type=float, default=0.9, help="of every training's optimiser")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.steps = 1, 4
    mnist = trainings.need(options.build / "examples/mnist")
    tool = trainings.need(options.build / "troupe")
    facts = trainings.machine_facts(mnist)
    rows = rows_of(options, mnist, tool)
    results, _ = trainings.interleaved(rows, options.rounds, lambda row: trainings.train(row.command))

    table, report = [], []
    for row, summaries in zip(rows, results):
        accuracies = [summary["test"]["accuracy"] for summary in summaries]
        rates = [summary["global_step"] * options.batch_size / summary["seconds"] for summary in summaries]
        table.append([row.strategy.label, str(row.count), trainings.range_text(accuracies, ".4f"),
                      trainings.range_text(rates, ".0f")])
        report.append({"strategy": row.strategy.label, "replicas": row.count, "command": row.command,
                       "test_accuracy": trainings.summary_of(accuracies),
                       "examples_per_second": trainings.summary_of(rates), "summaries": summaries})
    print(f"{options.steps} steps of {options.batch_size} examples, momentum {options.momentum}, data {options.data_dir}, "
          f"{options.rounds} rounds: median [min-max]; {facts['cpu']}, {facts['usable_cores']} cores\n")
    trainings.print_table(["strategy", "replicas", "test accuracy", "samples/s"], table)
    trainings.write_json(options.json, {"benchmark": "strategies", "machine": facts,
                                        "steps": options.steps, "batch_size": options.batch_size,
                                        "momentum": options.momentum, "data": options.data_dir, "rows": report})


trainings.run_main(main)
