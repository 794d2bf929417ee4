"""What the scripts of this folder share: starting trainings, reading what they report, summing
up, and writing tables. Python's standard library only."""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 1800  # of one training


class Failed(Exception):
    """A training did not end as it should; the message is for the user."""


def usable_cores():
    return len(os.sched_getaffinity(0))


def output_of(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def machine_facts(program):
    """What the numbers depend on. Load is the mean of the last minute: above 0.5 they mean little."""
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "usable_cores": usable_cores(),
        "load_at_start": os.getloadavg()[0],
        "system": platform.platform(),
        "program": output_of([program, "--version"]).strip(),
    }


def machine_line(facts):
    """Of the facts that a benchmark program prints."""
    return (f"{facts['cpu']}, {facts['cores_usable']} cores, {facts['kernel']}, LibTorch {facts['libtorch']}, "
            f"{facts['blas']}, {facts['compiler']}, {facts['build_type']}, {facts['date']}, "
            f"load {facts['load_average']}")


def parser_for(purpose, build_help="folder of the build"):
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help=build_help)
    parser.add_argument("--rounds", type=int, default=5, help="trainings of each row, interleaved")
    parser.add_argument("--json", type=pathlib.Path, help="every number goes here")
    parser.add_argument("--smoke", action="store_true",
                        help="one short round: shows that everything works; the numbers mean nothing")
    return parser


def need(path):
    if not os.access(path, os.X_OK):
        print(f"bench: error: {path} is missing. Fix: build it (./dev build).", file=sys.stderr)
        sys.exit(3)
    return str(path)


def knows(program, arguments, word):
    """Whether the help of this build names `word`."""
    return word in output_of([program, *arguments])


def on_workers(tool, workers, command, servers=0):
    """The command that starts `workers` of `command`, with parameter servers beside them."""
    if workers == 1 and servers == 0:
        return command
    beside = ["--ps", str(servers)] if servers else []
    return [tool, "run", "--workers", str(workers), *beside, "--no-prefix", "--", *command]


def train(command):
    """Runs a training with --json-summary; returns the summary."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")}
    try:
        done = subprocess.run(command + ["--json-summary", "--no-progress"], capture_output=True, text=True,
                              env=clean, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {LIMIT_SECONDS} s: {' '.join(command)}") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise Failed(f"ended with {done.returncode}: {' '.join(command)}\n{done.stderr[-3000:]}")
    return json.loads(lines[-1])


def interleaved(rows, rounds, measure):
    """measure(row), `rounds` times for each row: every round does all rows, each round starting with
    another one, so that a slow minute of the machine does not fall on one row. Returns the results by
    row."""
    results = [[] for _ in rows]
    for number in range(rounds):
        for offset in range(len(rows)):
            at = (number + offset) % len(rows)
            print(f"round {number + 1} of {rounds}: {rows[at].label}", file=sys.stderr)
            results[at].append(measure(rows[at]))
    return results


def summary_of(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "values": values}


def range_text(values, form):
    """"7832 [7630-7856]": the median, the smallest, the largest."""
    return f"{statistics.median(values):{form}} [{min(values):{form}}-{max(values):{form}}]"


def print_table(head, rows):
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    for line in [head, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |")


def write_json(path, report):
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nEvery number: {path}", file=sys.stderr)


def run_main(main):
    """The only catch-all: a training that failed is one line and exit code 1."""
    try:
        main()
    except Failed as error:
        print(f"bench: error: {error}", file=sys.stderr)
        sys.exit(1)
