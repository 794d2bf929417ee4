#!/usr/bin/env python3
"""Trains with virtual replicas at many widths and on every transport, and compares the bits:
parameter_hash, and the losses and metrics of training, validation and test.

    tests/process/virtual_widths.py <build folder> [quick]
"""
import itertools, json, subprocess, sys, time

build = sys.argv[1]
quick = len(sys.argv) > 2 and sys.argv[2] == "quick"
NET = [f"{build}/tests/process/trainings", "virtual_net", "--batch-size", "40", "--epochs", "2", "--clip-norm", "0.5",
       "--ema-decay", "0.9", "--threads", "1"]
MNIST = [f"{build}/examples/mnist", "--data-dir", "synthetic", "--train-examples", "600", "--epochs", "1",
         "--threads", "1"]
KEYS = ("parameter_hash", "train", "validation", "test", "global_step")


def train(program, virtual, workers=1, replicas=1, transport="auto", flags=()):
    command = [*program, "--virtual-replicas", str(virtual), "--transport", transport, "--json-summary",
               "--devices", f"cpu:0-{replicas - 1}", *flags]
    if workers > 1:
        command = [f"{build}/troupe", "run", "--workers", str(workers), "--no-prefix", "--", *command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return {key: json.loads(done.stdout.splitlines()[-1])[key] for key in KEYS}


def compare(name, program, virtual, widths, flags=()):
    """Each width is (workers, replicas, transport)."""
    start = time.monotonic()
    expected = train(program, virtual, flags=flags)
    different = [width for width in widths if train(program, virtual, *width, flags=flags) != expected]
    print(f"{name}, V = {virtual}: {len(widths)} widths, {len(different)} different {different or ''}"
          f" ({expected['parameter_hash'][:16]}, {time.monotonic() - start:.0f} s)", flush=True)
    return len(different)


TRANSPORTS = ("tcp", "unix", "shm")
wrong = 0
for name, program in (("mnist", MNIST), ("net", NET)):
    widths = [(w, 1, t) for w in range(2, 9) for t in TRANSPORTS]
    wrong += compare(name, program, 8, widths[::4] if quick else widths)
    for virtual in (6, 7, 12):
        widths = [(w, 1, t) for w, t in zip(range(2, 6), itertools.cycle(TRANSPORTS))]
        wrong += compare(name, program, virtual, widths[::2] if quick else widths)
wrong += compare("mnist, replicas", MNIST, 8, [(1, 2, "auto"), (1, 4, "auto"), (2, 2, "shm"), (2, 2, "tcp")])
for flags in (["--accumulate", "2"], ["--precision", "bfloat16"], ["--lr-schedule", "cosine", "--max-steps", "10"]):
    wrong += compare(f"net {' '.join(flags)}", NET, 8, [(3, 1, "auto"), (5, 1, "tcp")], flags)
sys.exit(f"{wrong} runs differ" if wrong else 0)
