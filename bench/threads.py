#!/usr/bin/env python3
"""What the number of compute threads, and how LibTorch's threads wait for work, come to: examples per second of examples/mnist,
alone and as two workers, on a quiet machine and beside one and two processes that compute. Threads that spin while they wait
are the fastest on a quiet machine, and hold up the others where a core is taken.

    bench/threads.py [--build build/release] [--rounds 3] [--json build/release/bench/threads.json]"""

import dataclasses
import itertools
import multiprocessing
import os
import statistics

import trainings

STEPS = 400


@dataclasses.dataclass(frozen=True)
class Way:
    """How a training is started: variables, and flags."""

    label: str
    variables: tuple = ()
    flags: tuple = ()


WAYS = (
    Way("default"),
    Way("--threads 1", flags=("--threads", "1")),
    Way("GOMP_SPINCOUNT=1000", (("GOMP_SPINCOUNT", "1000"),)),
    Way("GOMP_SPINCOUNT=10000", (("GOMP_SPINCOUNT", "10000"),)),
    Way("GOMP_SPINCOUNT=30000", (("GOMP_SPINCOUNT", "30000"),)),
    Way("OMP_WAIT_POLICY=passive", (("OMP_WAIT_POLICY", "passive"),)),
)
BESIDE = (0, 1, 2)


@dataclasses.dataclass(frozen=True)
class Row:
    way: Way
    workers: int
    beside: int

    @property
    def label(self):
        return f"{self.way.label}, {self.workers} workers, beside {self.beside}"


def compute():
    while True:
        sum(range(100_000))


def measure(build, row, steps):
    """Examples per second of one training."""
    busy = [multiprocessing.Process(target=compute, daemon=True) for _ in range(row.beside)]
    for process in busy:
        process.start()
    before = {name: os.environ.get(name) for name, _ in row.way.variables}
    os.environ.update(row.way.variables)
    try:
        training = [str(build / "examples/mnist"), "--data-dir", "synthetic", "--log-every", "0", "--log-level", "warning",
                    "--max-steps", str(steps), *row.way.flags]
        summary = trainings.train(trainings.on_workers(str(build / "troupe"), row.workers, training))
        return summary["examples_per_sec"]
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        for process in busy:
            process.kill()
            process.join()


def main():
    parser = trainings.parser_for(__doc__)
    arguments = parser.parse_args()
    trainings.need(arguments.build / "troupe")
    program = trainings.need(arguments.build / "examples/mnist")
    rows = [Row(way, workers, beside) for workers, way, beside in itertools.product((1, 2), WAYS, BESIDE)
            if workers == 1 or not way.variables]  # troupe run has a policy of its own
    rounds, steps = (1, 5) if arguments.smoke else (arguments.rounds, STEPS)
    results, _ = trainings.interleaved(rows, rounds, lambda row: measure(arguments.build, row, steps))
    facts = trainings.machine_facts(program)
    print(f"{facts['cpu']}, {facts['usable_cores']} cores; {'; '.join(facts['program'].splitlines()[1:3])}\n")
    by_row = dict(zip(rows, results))
    table = [[way.label, str(workers), *(trainings.range_text(by_row[Row(way, workers, beside)], ".0f") for beside in BESIDE)]
             for workers, way in itertools.product((1, 2), WAYS) if Row(way, workers, 0) in by_row]
    trainings.print_table(["threads", "workers", "quiet", "beside one", "beside two"], table)
    trainings.write_json(arguments.json, {"machine": facts, "rows": [
        {"way": row.way.label, "workers": row.workers, "beside": row.beside,
         "examples_per_sec": trainings.summary_of(values), "median": statistics.median(values)}
        for row, values in by_row.items()]})


if __name__ == "__main__":
    trainings.run_main(main)
