#!/usr/bin/env python3
"""Whether a change made training slower: two commits, built and run in turns.

    bench/compare.py OLD NEW [--rows "cnn" "cnn, tcp"] [--pairs 7] [--limit 3] [--json FILE]

OLD and NEW are commits, which are built below build/compare, or folders of builds. Each pair of runs has both, in an order that
alternates; a row's ratio is the median of its pairs' ratios of samples per second. A row that is slower by more
than --limit percent is run again, with four times the pairs, and is slower if the interval that has their true median
in 19 of 20 cases is below the limit, too; if the interval has the limit in it, these pairs cannot tell. Exit code 0:
every row holds; 1: at least one is slower; 4: of at least one these pairs cannot tell; 3: something could not be built."""

import argparse
import dataclasses
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import trainings

TARGETS = ("troupe_tool", "mnist", "resnet")
REPEATS = 4  # times --pairs, for a row that looks slower: single pairs scatter by 5 %


@dataclasses.dataclass(frozen=True)
class Row:
    """A training: `flags` of the example `program`, on `workers` and `servers`."""

    label: str
    program: str = "mnist"
    flags: tuple = ()
    workers: int = 1
    servers: int = 0
    pace: float = 1.0  # its steps for one of the CNN's, so that rows take about as long

    def command(self, build, steps):
        training = [str(build / "examples" / self.program), "--data-dir", "synthetic", "--log-every", "0", "--log-level",
                    "warning", "--max-steps", str(max(1, round(steps * self.pace))), *self.flags]
        return trainings.on_workers(str(build / "troupe"), self.workers, training, self.servers)


ROWS = (
    Row("cnn"),
    Row("cnn, mirrored", flags=("--devices", "cpu:0-1")),
    Row("cnn, workers", workers=2),
    Row("cnn, tcp", workers=2, flags=("--transport", "tcp")),
    Row("cnn, servers", workers=2, servers=1, flags=("--strategy", "parameter-server", "--staleness-bound", "0")),
    Row("resnet", program="resnet", pace=0.05),
)


def failed(message):
    print(f"bench: error: {message}", file=sys.stderr)
    sys.exit(3)


def build_of(name):
    """The build folder of a commit, made in a work tree of its own; a folder is taken as it is."""
    if os.path.isdir(name):
        return pathlib.Path(name).resolve()
    commit = ""
    if shutil.which("git"):
        commit = subprocess.run(["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"], cwd=trainings.ROOT,
                                capture_output=True, text=True, check=False).stdout.strip()
    if not commit:
        failed(f"{name} is neither a commit nor the folder of a build. Fix: name one that `git log` shows.")
    tree = trainings.ROOT / "build" / "compare" / commit[:12]
    if not tree.exists():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=trainings.ROOT, check=True)
    print(f"building {commit[:12]} ({name})", file=sys.stderr)
    if subprocess.run(["./dev", "build", *TARGETS], cwd=tree, stdout=sys.stderr, check=False).returncode != 0:
        failed(f"{name} does not build, see above. Fix: choose a commit that does, or remove {tree}.")
    return tree / "build/release"


def rate_of(row, build, steps):
    """Steps per second, which is samples per second but for a factor that both builds share."""
    summary = trainings.train(row.command(build, steps))
    return summary["global_step"] / summary["seconds"]


def ratios_of(row, pairs, measure):
    """NEW / OLD of each pair; measure(row, "old" | "new") is a rate."""
    ratios = []
    for pair in range(pairs):
        sides = ("old", "new") if pair % 2 == 0 else ("new", "old")
        rates = {side: measure(row, side) for side in sides}
        ratios.append(rates["new"] / rates["old"])
    return ratios


def upper_end(ratios):
    """Of the 95 % interval of the ratios' true median, which needs no distribution: it is between the k-th value from
    below and the k-th from above, but where fewer than k of n throws of a coin are heads (binomial)."""
    count = len(ratios)
    outside, rank = 0, 0
    while rank < count // 2 and outside + math.comb(count, rank) <= 0.025 * 2 ** count:
        outside += math.comb(count, rank)
        rank += 1
    return sorted(ratios)[count - max(rank, 1)]


def verdict(again, floor):
    if not again or statistics.median(again) >= floor:
        return "holds"
    return "slower" if upper_end(again) < floor else "cannot tell"


def compare(rows, pairs, limit, measure):
    """Of each row: the ratios of its first run, those of its second (empty where the first was not slow), and what
    they come to."""
    floor = 1 - limit / 100
    results = []
    for row in rows:
        first = ratios_of(row, pairs, measure)
        again = ratios_of(row, REPEATS * pairs, measure) if statistics.median(first) < floor else []
        results.append((row, first, again, verdict(again, floor)))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("old", help="commit, or folder of a build")
    parser.add_argument("new", help="the same")
    labels = [row.label for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=labels, default=labels, help="which trainings [all]")
    parser.add_argument("--pairs", type=int, default=7, help="runs of both, for each row")
    parser.add_argument("--limit", type=float, default=3, help="percent that a row may lose")
    # So many that what a run does once, in its start and first step, is no percent of it.
    parser.add_argument("--steps", type=int, default=1200, help="of the CNN's trainings; others have as many as take as long")
    parser.add_argument("--json", type=pathlib.Path, help="every number goes here")
    options = parser.parse_args()
    builds = {"old": build_of(options.old), "new": build_of(options.new)}
    for build in builds.values():
        for program in ("troupe", "examples/mnist", "examples/resnet"):
            trainings.need(build / program)
    facts = trainings.machine_facts(str(builds["new"] / "examples/mnist"))
    rows = [row for row in ROWS if row.label in options.rows]

    def measure(row, side):
        print(f"{row.label}: {side}", file=sys.stderr)
        return rate_of(row, builds[side], options.steps)

    stolen = trainings.StolenTime()
    results = compare(rows, options.pairs, options.limit, measure)
    others = stolen.percent()
    print(f"samples per second, {options.new} / {options.old}: median [min-max] of {options.pairs} pairs; {facts['cpu']}, "
          f"{facts['usable_cores']} cores, load at start {facts['load_at_start']:.1f}\n")
    trainings.print_table(
        ["training", "ratio", f"again, {REPEATS * options.pairs} pairs", "verdict"],
        [[row.label, trainings.range_text(first, ".3f"), trainings.range_text(again, ".3f") if again else "-",
          f"slower by more than {options.limit:g} %" if found == "slower" else found]
         for row, first, again, found in results])
    print(f"\nOthers took {others:.1f} % of the processors' time"
          f"{': run it again when the machine is quiet' if others > trainings.QUIET_PERCENT else ''}.")
    trainings.write_json(options.json, {
        "benchmark": "compare", "machine": facts, "stolen_percent": others, "old": options.old, "new": options.new, "limit_percent": options.limit,
        "rows": [{"row": row.label, "ratios": first, "again": again, "verdict": found}
                 for row, first, again, found in results]})
    found = {found for *_, found in results}
    sys.exit(1 if "slower" in found else 4 if "cannot tell" in found else 0)


trainings.run_main(main)
