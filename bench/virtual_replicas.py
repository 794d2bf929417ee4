#!/usr/bin/env python3
"""What virtual replicas cost: examples per second of training MNIST on 1 and 2 workers without them and with V = W,
2W and 4W, and the staircase of V = 8 on 1 to 8 workers. Every worker computes with one thread.

    bench/virtual_replicas.py [--data-dir mnist] [--build build/release] [--json build/release/bench/virtual.json]

All rows take the same steps of the same global batch. A staircase shows only as far as the machine has cores."""

import dataclasses

import trainings


@dataclasses.dataclass(frozen=True)
class Row:
    workers: int
    virtual: int  # 0: none
    command: list

    @property
    def label(self):
        return f"{self.workers} workers, V = {self.virtual}"


def rows_of(options, mnist, tool):
    training = [mnist, "--batch-size", str(options.batch_size), "--max-steps", str(options.steps), "--threads", "1",
                "--data-dir", options.data_dir, "--log-every", "0", "--log-level", "warning"]
    if options.smoke:
        training += ["--train-examples", "500"]
    widths = [(w, v) for w in (1, 2) for v in (0, w, 2 * w, 4 * w)]
    widths += [(w, 8) for w in range(1, 9) if (w, 8) not in widths]
    if options.smoke:
        widths = [(1, 0), (1, 2), (2, 8)]
    return [Row(w, v, trainings.on_workers(tool, w, training + ["--virtual-replicas", str(v)])) for w, v in widths]


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data-dir", default="synthetic", help="MNIST's four files [generated digits]")
    parser.add_argument("--steps", type=int, default=200, help="of every training")
    parser.add_argument("--batch-size", type=int, default=128, help="examples of a step")
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
        rates = [summary["global_step"] * options.batch_size / summary["seconds"] for summary in summaries]
        hashes = sorted({summary["parameter_hash"][:12] for summary in summaries})
        table.append([str(row.workers), str(row.virtual or "-"), trainings.range_text(rates, ".0f"), " ".join(hashes)])
        report.append({"workers": row.workers, "virtual_replicas": row.virtual, "command": row.command,
                       "examples_per_second": trainings.summary_of(rates), "summaries": summaries})
    print(f"{options.steps} steps of {options.batch_size} examples, one thread per worker, data {options.data_dir}, "
          f"{options.rounds} rounds: median [min-max]; {facts['cpu']}, {facts['usable_cores']} cores\n")
    trainings.print_table(["workers", "V", "examples/s", "parameter_hash"], table)
    trainings.write_json(options.json, {"benchmark": "virtual_replicas", "machine": facts, "steps": options.steps,
                                        "batch_size": options.batch_size, "data": options.data_dir, "rows": report})


trainings.run_main(main)
