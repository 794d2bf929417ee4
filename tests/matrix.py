#!/usr/bin/env python3
"""Builds and tests Troupe with each LibTorch, and writes what came of it into the table of docs/libtorch.md.

    ./dev matrix [WHERE[@STANDARD]...]

WHERE is what ./dev's --torch takes; @20 or @23 behind it asks for that C++ standard. Without any: the system's, as C++17 and as
C++20, and pip's of cmake/pip_torch_version. Another distribution has its rows written there. A row takes the place of the last one
for the same LibTorch, distribution, compiler and standard; other rows stay. What runs is what can depend on LibTorch: the tests
with the label torch, golden or consumer, as in .ci/run."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/libtorch.md"
LOGS = ROOT / "build/matrix"
TITLE = "| LibTorch | where from | distribution | compiler | C++ | engines, exports | result |"
KEY_CELLS = 5  # that say which row it is


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def distribution():
    release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return release["PRETTY_NAME"].strip('"')


def compiler():
    return "g++ " + output_of("g++", "-dumpfullversion").strip()


def refusal(log):
    """What CMake ended with, in one line, without the paths of this machine."""
    said = re.search(r"CMake Error.*?\n\n?(.*?)\n(Call Stack|\n\n)", log, re.DOTALL)
    if said is None:
        sys.exit(f"{log[-1000:]}matrix: this is no LibTorch's fault, so the table does not say it.")
    words = re.sub(r"\s+", " ", said.group(1)).strip()
    return re.sub(r"\S*/(\S+)", r"\1", words)


def outcome(log, passed):
    counts = re.findall(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", log, re.MULTILINE)
    if not counts:
        return "does not build"
    failed, tests = map(int, counts[-1])
    skipped = len(set(re.findall(r"^\s*\d+ - (.*) \(Skipped\)$", log, re.MULTILINE)))
    result = f"{tests - failed - skipped} of {tests} tests passed" + (f", {skipped} skipped" if skipped else "")
    return result if passed else f"{failed} failed: {result}"


def run(where, standard):
    """The cells of one LibTorch's row."""
    environment = dict(os.environ, TROUPE_CXX_STANDARD=standard)
    done = subprocess.run([ROOT / "dev", "test", "--torch", where, "-L", "torch|golden|consumer"], env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = done.stdout
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / (re.sub(r"\W+", "_", f"{where} {standard}").strip("_") + ".log")).write_text(log)
    place = "an unpacked folder" if os.path.isdir(where) else where.split(":")[0]
    built = re.findall(r"^dev: building (\S+) with", log, re.MULTILINE)
    if not built:
        return [where.partition(":")[2] or where, place, distribution(), compiler(), "–", "–", f"refused: {refusal(log)}"]
    folder = ROOT / built[-1]
    if not (folder / "troupe").exists():
        return [where.partition(":")[2] or where, place, distribution(), compiler(), "–", "–", "does not build"]
    facts = json.loads(output_of(folder / "troupe", "doctor", "--json"))
    version = re.search(r" ([0-9.]+)", facts["libtorch"]["package"])
    version = version.group(1) if version else facts["libtorch"]["version"]
    has = list(facts["engines"]) + (["ONNX"] if "-- export to ONNX: yes" in log else [])
    level = re.search(r"-std=c\+\+(\d+)", (folder / "troupe.pc").read_text()).group(1)
    return [version, place, distribution(), compiler(), level, ", ".join(has), outcome(log, done.returncode == 0)]


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def with_row(page, cells):
    """`page` with the row in its table, in the order of versions."""
    lines = page.splitlines()
    first = lines.index(TITLE) + 2
    last = first
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    rows = [cells_of(line) for line in lines[first:last]]
    rows = [row for row in rows if row[:KEY_CELLS] != cells[:KEY_CELLS]] + [cells]
    rows.sort(key=lambda row: ([int(part) for part in re.findall(r"\d+", row[0])], row))
    lines[first:last] = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main():
    pinned = (ROOT / "cmake/pip_torch_version").read_text().strip()
    parser = argparse.ArgumentParser(prog="./dev matrix", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", metavar="WHERE[@STANDARD]", nargs="*", default=["system", "system@20", f"pip:{pinned}"])
    for asked in parser.parse_args().where:
        where, _, standard = asked.partition("@")
        cells = run(f"pip:{pinned}" if where == "pip" else where, standard)
        print("| " + " | ".join(cells) + " |", flush=True)
        PAGE.write_text(with_row(PAGE.read_text(), cells))


if __name__ == "__main__":
    main()
