#!/usr/bin/env python3
"""Global steps per second of asynchronous parameter servers against the number of workers, with simulated
compute: simulated_step's training step sleeps --compute-ms and then pushes the gradient of a small model.
Sleeping workers do not fight for the cores, so what is seen is whether servers and protocol scale: with 1000
/ --compute-ms steps per second and worker as the limit.

    bench/server_steps.py [--build build/release] [--json build/release/bench/server_steps.json]

Needs a build with parameter servers; another ends with 3."""

import dataclasses
import sys

import trainings


@dataclasses.dataclass(frozen=True)
class Row:
    workers: int
    servers: int
    command: list

    @property
    def label(self):
        return f"{self.workers} workers, {self.servers} servers"


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--compute-ms", type=int, default=20, help="how long a training step sleeps")
    parser.add_argument("--width", type=int, default=64, help="of the model: width x width values")
    parser.add_argument("--steps", type=int, default=500, help="for each worker")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.steps, options.workers = 1, 5, [1, 2]
    program = trainings.need(options.build / "bench/simulated_step")
    tool = trainings.need(options.build / "troupe")
    if not trainings.knows(tool, ["run", "--help"], "--ps"):
        print("bench: error: this build starts no parameter servers (troupe run --ps).", file=sys.stderr)
        sys.exit(3)
    facts = trainings.machine_facts(program)
    rows = []
    for workers in options.workers:
        command = [program, "--strategy", "parameter-server", "--compute-ms", str(options.compute_ms),
                   "--width", str(options.width), "--max-steps", str(options.steps * workers),
                   "--threads", "1", "--log-every", "0", "--log-level", "warning"]
        rows.append(Row(workers, options.servers,
                        trainings.on_workers(tool, workers, command, options.servers)))
    results, _ = trainings.interleaved(rows, options.rounds, lambda row: trainings.train(row.command))

    rates = [[summary["global_step"] / summary["seconds"] for summary in summaries] for summaries in results]
    table, report = [], []
    for row, own, summaries in zip(rows, rates, results):
        # Both were measured in the same round.
        gains = [rate / base for rate, base in zip(own, rates[0])]
        limit = row.workers * 1000 / options.compute_ms
        table.append([str(row.workers), trainings.range_text(own, ".1f"),
                      trainings.range_text(gains, ".2f"), f"{limit:.1f}"])
        report.append({"workers": row.workers, "servers": row.servers, "command": row.command,
                       "steps_per_second": trainings.summary_of(own),
                       "times_the_first_row": trainings.summary_of(gains), "limit": limit,
                       "summaries": summaries})
    print(f"{options.compute_ms} ms of simulated compute, {options.servers} server(s), "
          f"{options.rounds} rounds: median [min-max]; {facts['cpu']}, {facts['usable_cores']} cores\n")
    trainings.print_table(["workers", "global steps/s", f"times {rows[0].workers} worker(s)", "limit"], table)
    trainings.write_json(options.json, {"benchmark": "server_steps", "machine": facts,
                                        "compute_ms": options.compute_ms, "width": options.width,
                                        "steps_per_worker": options.steps, "rows": report})


trainings.run_main(main)
