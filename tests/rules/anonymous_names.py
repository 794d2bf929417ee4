#!/usr/bin/env python3
"""Checks that the files of one library have no equal names in their anonymous namespaces: compiled as one batch, these are one
namespace, and one function might be called for another.

    tests/rules/anonymous_names.py BUILD      reads the batches that CMake made in the build folder"""

import collections
import os
import pathlib
import re
import sys

SPACE = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
# What the formatter leaves at the start of a line of a namespace: no part of a body, which is indented.
TYPE = re.compile(r"^(?:class|struct|enum class|enum|union)\s+(\w+)\b[^;]*$|^using\s+(\w+)\s*=", re.MULTILINE)
FUNCTION = re.compile(r"^(?!using |namespace |typedef |class |struct |enum |return |template |friend )[\w:<>,*&\[\]\s]*?(?<!::)\b(\w+)\s*\([^;{]*?\)?[^;{=]*[{;]", re.MULTILINE)
VARIABLE = re.compile(r"^(?:thread_local |static |const |constexpr |std::|[A-Za-z_])[\w:<>,*&\s]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:=|\{)", re.MULTILINE)


def names_in(text):
    """Pairs of the named namespace around, as its last line opens it, and a name."""
    found = set()
    for space in SPACE.finditer(text):
        outer = re.findall(r"^namespace ([\w:]+) \{$", text[:space.start()], re.MULTILINE)
        body = re.sub(r"//[^\n]*", "", space[1])
        lines = [line for line in body.split("\n") if line[:1] not in (" ", "}", ")", "#", ":", "")]
        types = "\n".join(line for line in lines if re.match(r"(class|struct|enum|union|using)\b", line))
        others = "\n".join(line for line in lines if not re.match(r"(class|struct|enum|union|using|namespace|template)\b", line))
        for pattern, part in ((TYPE, types), (FUNCTION, others), (VARIABLE, others)):
            for match in pattern.finditer(part):
                found.add((outer[-1] if outer else "", next(name for name in match.groups() if name)))
    return found


def main():
    faults = 0
    build = pathlib.Path(sys.argv[1])
    batches = []
    for folder, inner, _ in os.walk(build):
        if pathlib.Path(folder) == build:
            inner[:] = [name for name in inner if name != "tests"]  # where other tests make and remove folders meanwhile
        batches += sorted(pathlib.Path(folder).glob("Unity/unity_*_cxx.cxx"))
    for batch in batches:
        files = [pathlib.Path(name) for name in re.findall(r'#include "([^"]+)"', batch.read_text(encoding="utf-8"))]
        owners = collections.defaultdict(list)
        for file in files:
            if file.is_file():
                for name in names_in(file.read_text(encoding="utf-8")):
                    owners[name].append(file)
        for (_, name), where in sorted(owners.items()):
            if len(where) > 1:
                faults += 1
                print(f"{name}: {', '.join(sorted(path.as_posix() for path in where))}", file=sys.stderr)
    if not batches:
        print("no batch was found: is BUILD right?", file=sys.stderr)
    print(f"{len(batches)} batches, {faults} equal names")
    return 1 if faults or not batches else 0


if __name__ == "__main__":
    sys.exit(main())
