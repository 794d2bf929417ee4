"""What the scripts of this folder share: starting trainings, reading what they report, summing
up, and writing tables. Python's standard library only."""

import argparse
import json
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 1800  # of one training
QUIET_PERCENT = 2  # of the processors' time that others may take in a round
RETAKES = 3  # times the rounds wanted, at most, for short ones


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
    parser.add_argument("--torch", dest="build", type=build_of, metavar="WHERE",
                        help="instead of --build: the build of ./dev --torch WHERE; system, pip or pip:VERSION")
    parser.add_argument("--rounds", type=int, default=5, help="trainings of each row, interleaved")
    parser.add_argument("--json", type=pathlib.Path, help="every number goes here")
    parser.add_argument("--smoke", action="store_true",
                        help="one short round: shows that everything works; the numbers mean nothing")
    return parser


def add_python(parser):
    parser.add_argument("--python", help="with torch, to compare with [the one that the build's LibTorch comes with]")


def refuse(why):
    print(f"bench: error: {why}", file=sys.stderr)
    sys.exit(3)


def need(path):
    if not os.access(path, os.X_OK):
        refuse(f"{path} is missing. Fix: build it (./dev build).")
    return str(path)


def build_of(where):
    """The folder in which ./dev --torch `where` builds."""
    if where == "system":
        return ROOT / "build/release"
    found = re.fullmatch(r"pip(?::([0-9.]+))?", where)
    if not found:
        raise argparse.ArgumentTypeError(f"'{where}' names no build. Fix: write system, pip or pip:VERSION; for another "
                                         "LibTorch write --build with the folder of its build.")
    return ROOT / f"build/release-pip-{found.group(1) or (ROOT / 'cmake/pip_torch_version').read_text().strip()}"


def python_of(build):
    """The Python that a build's LibTorch comes with: the one of the nearest folder above it that has a bin/python3, such
    as a virtual environment, or /usr for the system's. None for an unpacked archive, which comes without."""
    cache = build / "CMakeCache.txt"
    found = cache.is_file() and re.search(r"^Torch_DIR:\w+=(/.*)$", cache.read_text(), re.M)
    if not found:
        refuse(f"{cache} does not say where LibTorch is. Fix: build it (./dev bench), or pass --python.")
    above = list(pathlib.Path(found.group(1)).parents)[:-1]  # without /, whose bin is /usr's by another name
    return next((str(folder / "bin/python3") for folder in above if os.access(folder / "bin/python3", os.X_OK)), None)


def torch_of(python):
    """Its torch.__version__; None where it has no torch that trains on several processes."""
    try:
        done = subprocess.run([python, "-c", "import torch.distributed; print(torch.__version__)"], capture_output=True,
                              text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def same_torch(one, other):
    """Whether two versions agree in major and minor. What follows may differ: Debian's 1.13.1 calls itself 1.13.0 in its
    headers and 1.13.0a0 in Python."""
    return one.split(".")[:2] == other.split(".")[:2]


def peer_of(options):
    """The Python to compare with, and its torch.__version__, which is the build's. (None, None), and a line that says so,
    where the build's LibTorch comes without."""
    python = options.python or python_of(options.build)
    version = torch_of(python) if python else None
    if version is None:
        why = f"{python} has no torch.distributed" if python else "this build's LibTorch comes without Python"
        if options.python:
            refuse(f"{why}. Fix: pass --python with one that has.")
        print(f"left out, {why} (Debian: python3-torch; else --python): the rows of Python", file=sys.stderr)
        return None, None
    doctor = subprocess.run([need(options.build / "troupe"), "doctor", "--json"], capture_output=True, text=True, check=False)
    ours = json.loads(doctor.stdout)["libtorch"]["version"]
    if not same_torch(ours, version):
        refuse(f"{options.build} is built with LibTorch {ours}, but {python} has torch {version}: the tables would compare "
               f"LibTorch with LibTorch. Fix: pass --python with one that has torch {ours}, or build with its LibTorch.")
    return python, version


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


class StolenTime:
    """How much of the processors' time others have taken since this was made: the host of a virtual machine for its
    other guests, and programs that this one did not start."""

    def __init__(self):
        self._before = self._ticks()

    def percent(self):
        stolen, total = (now - before for now, before in zip(self._ticks(), self._before))
        return 100 * max(stolen, 0) / max(total, 1)

    @staticmethod
    def _ticks():
        # user nice system idle iowait irq softirq steal; guests are within user and nice (proc(5))
        ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return ticks[7] + sum(ticks[:3]) - own_ticks(), sum(ticks)


def own_ticks():
    """What this process and all that come from it have run for, those that have ended included."""
    parents, ticks = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()  # a name may have spaces
        except OSError:
            continue  # it has ended
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = sum(map(int, fields[11:15]))  # user and system, and those of children that have ended
    total = 0
    for process in ticks:
        ancestor = process
        while ancestor in parents and ancestor != os.getpid():
            ancestor = parents[ancestor]
        total += ticks[process] if ancestor == os.getpid() else 0
    return total


def quietest(rounds, retakes, take):
    """take(number) is one round. Those in which others took more than QUIET_PERCENT of the processors' time are
    disturbed: until there are `rounds` quiet ones up to `retakes` times as many are added, and in the end those are
    kept in which they took least. Nothing that was measured has a say in which. Returns the results of the rounds
    kept, and {"kept", "taken"}: the percent by round."""
    results, stolen = [], []
    while (sum(percent <= QUIET_PERCENT for percent in stolen) < rounds and
           len(results) < rounds * (1 + retakes)):
        clock = StolenTime()
        results.append(take(len(results)))
        stolen.append(clock.percent())
    kept = sorted(sorted(range(len(results)), key=stolen.__getitem__)[:rounds])
    return [results[number] for number in kept], {"kept": [stolen[number] for number in kept], "taken": stolen}


def shuffled(rows, number):
    """In an order of this round's own: what a core did before shows in what it does next, so that nobody may always
    follow the same one."""
    return random.Random(number).sample(rows, len(rows))


def interleaved(rows, rounds, measure, retakes=0):
    """measure(row), `rounds` times for each row: every round does all rows, each round in another order,
    so that a slow minute of the machine does not fall on one row. Returns the results by row, and what
    quietest() says of the rounds."""
    def take(number):
        results = [None] * len(rows)
        for at in shuffled(range(len(rows)), number):
            print(f"round {number + 1}, {rounds} are wanted: {rows[at].label}", file=sys.stderr)
            results[at] = measure(rows[at])
        return results

    kept, stolen = quietest(rounds, retakes, take)
    return [[results[at] for results in kept] for at in range(len(rows))], stolen


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
