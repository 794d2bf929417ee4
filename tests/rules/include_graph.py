#!/usr/bin/env python3
"""Checks who includes whom: the rooms of the table below, in template/ and examples/ what is installed, no cycle between
the folders of a room, LibTorch where it may be, at most 24 names in a folder, and that tests get doctest through the prelude
alone.

    tests/rules/include_graph.py ROOT"""

import collections
import pathlib
import re
import sys

MAY_INCLUDE = {  # beside itself
    "core": "",
    "report": "core",
    "distributed": "core",
    "cli": "core",
    "data": "core",
    "hooks": "core data",
    "strategies": "core data hooks distributed",
    "train": "core data hooks strategies report",
    "export": "core report hooks train",
    "estimator": "core data hooks strategies report train export",
    "launcher": "core report cli distributed",
}
FOR_USERS = ("template", "examples")  # they may include what is installed: troupe.h, and what that includes
# A person finds a name in a folder of so many; a header and its source are one.
MOST_NAMES = 24
# Compiled in seconds, and every line of it seen by the thread sanitizer.
WITHOUT_LIBTORCH = re.compile(
    r"(core|report|distributed|cli|launcher|strategies/parameter_server/wire|train/evaluation|export/onnx)/|"
    r"strategies/(replica_threads|gradients/gradient_plan|gradients/bucket_thread)|train/schedule/schedule_factor|hooks/report")
OURS = re.compile(r'^#include "troupe/([^"]+)"', re.MULTILINE)
LIBTORCH = re.compile(r"^#include <(torch|ATen|c10)/", re.MULTILINE)


def sources(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def cycle_in(edges):
    """Folders that include each other in a ring, in its order; [] where there is none."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return []
        path.append(folder)
        for other in sorted(edges[folder]):
            if ring := visit(other):
                return ring
        path.pop()
        done.add(folder)
        return []

    return next((ring for folder in sorted(edges) if (ring := visit(folder))), [])


def installed_headers(root):
    found, to_read = set(), ["troupe.h"]
    while to_read:
        header = root / to_read.pop()
        included = OURS.findall(header.read_text(encoding="utf-8")) if header.is_file() else []
        to_read += [path for path in included if path not in found]
        found.update(included)
    return found


def faults_of(root):
    edges, names = collections.defaultdict(set), collections.defaultdict(set)
    for path, text in sources(root, *MAY_INCLUDE):
        room, folder = path.split("/")[0], path.rsplit("/", 1)[0]
        names[folder].add(pathlib.PurePath(path).stem)
        for included in OURS.findall(text):
            other = included.split("/")[0]
            if other != room and other not in MAY_INCLUDE[room].split():
                yield f"{path} includes {included}: {room}/ may not"
            elif other == room and included.rsplit("/", 1)[0] != folder:
                edges[folder].add(included.rsplit("/", 1)[0])
        if WITHOUT_LIBTORCH.match(path) and LIBTORCH.search(text):
            yield f"{path} includes LibTorch: it may not"
        if re.search(r'^#include "(?!troupe/|%s)' % "|".join(("tests/", "bench/")), text, re.MULTILINE):
            yield f'{path} spells an include without "troupe/"'
    if ring := cycle_in(edges):
        yield "folders include each other: " + " -> ".join(ring)
    for folder, found in sorted(names.items()):
        if len(found) > MOST_NAMES:
            yield f"{folder}/ has {len(found)} names: at most {MOST_NAMES}"
    installed = installed_headers(root)
    for path, text in sources(root, *FOR_USERS):
        yield from (f"{path} includes {included}, which is not installed: use troupe.h"
                    for included in OURS.findall(text) if included not in installed)
    for room in (*MAY_INCLUDE, "examples"):
        page = root / room / "README.md"
        if not page.is_file() or len(page.read_text(encoding="utf-8").strip().splitlines()) > 5:
            yield f"{room}/README.md does not say in five lines what lives there"
    for path, text in sources(root, "tests"):
        if re.search(r"^#include <doctest", text, re.MULTILINE) and not re.search(r"_prelude\.h$|^tests/main\.cpp$", path):
            yield f"{path} includes doctest directly: use tests/support/test_prelude.h"


def main():
    faults = list(faults_of(pathlib.Path(sys.argv[1])))
    for fault in faults:
        print(fault, file=sys.stderr)
    print("include graph: " + ("not as designed" if faults else "as designed"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
