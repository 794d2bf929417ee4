#!/usr/bin/env python3
"""Runs the programs on every strategy and writes docs/programs.md from what came of them.

    tests/programs/write_page.py build/release/tests/programs/programs"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/programs.md"
INTRODUCTION = """# Programs

For everybody who moves a training program to Troupe and asks whether it stays what it was. Each row is a kind of program, written twice: as a
plain LibTorch loop over whole batches, and as hooks. Each cell is a run of {steps} steps in float64 on that strategy, compared with the loop: every loss, a
metric and every tensor within 1e-9. The column "elastic" kills the chief in step 7 and lets another worker in. The programs are in `tests/programs/kinds`, ctest runs them all, and
`tests/programs/write_page.py` wrote this page from such a run.

| cell | means |
|---|---|
| = | equal to the plain loop on whole batches; in bfloat16 to the one under autocast in float32, within 8 % |
| shares | equal to a loop that computes each replica's share of a batch by itself, which is what the program defines there |
| parts | equal to a loop that computes each part of a batch by itself |
| simultaneous | equal to a loop that makes all gradients at the old weights |
| refused | ends with an error before it does harm; the number is that of the reason below |
| own draws | what is drawn in a hook is another draw at each width, and repeatable; with virtual replicas the same at each; where the cell has a number it is not repeatable, and the log says why |

"Gloo": two workers; "resumed": two workers, ended after step 7 and started again; "accumulate 3": `--accumulate 3`; "virtual 4": one process with `--virtual-replicas 4`; "averages": `--ema-decay`; "2 x 2": two workers with two replicas each; "sharded":
`--shard-optimizer`, two workers; "servers": two synchronous workers and two parameter servers.

"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        facts = pathlib.Path(folder) / "cells.json"
        for file in ("programs_test", "processes_test"):
            done = subprocess.run([sys.argv[1], f"--source-file=*/{file}.cpp"], env=dict(os.environ, TROUPE_PROGRAMS_JSON=str(facts)),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                sys.exit(done.stdout)
        cells = [cell for line in facts.read_text().splitlines() for cell in json.loads(line)]
    columns = list(dict.fromkeys(cell["column"] for cell in cells))
    kinds = sorted({cell["kind"] for cell in cells}, key=str.lower)
    reasons = list(dict.fromkeys(cell["reason"] for cell in cells if cell["reason"]))
    found = {(cell["kind"], cell["column"]): cell for cell in cells}

    def shown(kind, column):
        cell = found[kind, column]
        outcome = {"equal": "="}.get(cell["outcome"], cell["outcome"])
        return f"{outcome} {reasons.index(cell['reason']) + 1}" if cell["reason"] else outcome

    lines = [f"| program | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 1)]
    lines += [f"| {kind} | {' | '.join(shown(kind, column) for column in columns)} |" for kind in kinds]
    notes = [f"{number}. the message says: `{reason}`" for number, reason in enumerate(reasons, 1)]
    PAGE.write_text(INTRODUCTION.format(steps=20) + "\n".join(lines) + "\n\n## Reasons\n\n" + "\n".join(notes) + "\n")
    print(f"{len(cells)} cells of {len(kinds)} programs on {len(columns)} strategies")


if __name__ == "__main__":
    main()
