#!/usr/bin/env python3
"""compare.py finds a loss that repeats, and no other: it is run on builds whose programs only say how long they took."""

import pathlib
import subprocess
import sys
import tempfile

# Seconds of run number N of this build come from `seconds`: one a line, the last for all that follow.
PROGRAM = """#!/bin/sh
case "$*" in *--version*) echo fake; exit 0 ;; esac
build=$(dirname "$(readlink -f "$0")")
case "$build" in */examples) build=$(dirname "$build") ;; esac
echo run >>"$build/runs"
run=$(wc -l <"$build/runs")
seconds=$(sed -n "${run}p" "$build/seconds")
[ -n "$seconds" ] || seconds=$(tail -n 1 "$build/seconds")
[ "$seconds" != none ] || exit 7
echo "{\\"global_step\\": 100, \\"seconds\\": $seconds}"
"""


def build(folder, seconds):
    (folder / "examples").mkdir(parents=True)
    (folder / "seconds").write_text("\n".join(seconds) + "\n")
    for program in ("troupe", "examples/mnist", "examples/resnet"):
        (folder / program).write_text(PROGRAM)
        (folder / program).chmod(0o755)
    return str(folder)


def compared(old, new, *arguments):
    with tempfile.TemporaryDirectory() as work:
        builds = [build(pathlib.Path(work) / name, seconds) for name, seconds in (("old", old), ("new", new))]
        done = subprocess.run([sys.executable, "-B", str(pathlib.Path(__file__).with_name("compare.py")), *builds,
                               "--pairs", "3", *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def expect(what, outcome, code, *texts):
    if outcome[0] != code or any(text not in outcome[1] for text in texts):
        sys.exit(f"{what}: expected {code} and {texts}, got {outcome[0]}:\n{outcome[1]}")


ONE = ("--rows", "cnn")
expect("equal", compared(["1"], ["1"]), 0, "| cnn, servers", "| resnet", "holds")
expect("slower", compared(["1"], ["1.05"]), 1, "| cnn, tcp", "slower by more than 3 %")
expect("slower within the limit", compared(["1"], ["1.02"], *ONE), 0, "0.980 [0.980-0.980]", "holds")
expect("another limit", compared(["1"], ["1.02"], *ONE, "--limit", "1"), 1, "slower by more than 1 %")
expect("slower once", compared(["1"], ["1.2", "1.2", "1.2", "1"], *ONE), 0, "0.833 [0.833-0.833]", "1.000 [1.000-1.000]")
expect("pairs that cannot tell", compared(["1"], [*["1.2"] * 3, *["1.05", "1"] * 5, "1.05"], *ONE), 4, "| cannot tell")
expect("slower only when run again", compared(["1"], ["1", "1", "1", "2"], *ONE), 0, "1.000 [1.000-1.000]")
expect("one slow run among quick ones", compared(["1"], ["1", "9", "1"], *ONE), 0, "| -")
expect("faster", compared(["1"], ["0.5"], *ONE), 0, "2.000 [2.000-2.000]")
expect("a training that fails", compared(["1"], ["none"], *ONE), 1, "bench: error: ended with 7")
outcome = subprocess.run([sys.executable, "-B", str(pathlib.Path(__file__).with_name("compare.py")), "no-such-commit", "x"],
                         capture_output=True, text=True, check=False)
expect("no commit", (outcome.returncode, outcome.stderr), 3, "no-such-commit is neither a commit nor the folder of a build")
print("compare.py: every case as expected")
