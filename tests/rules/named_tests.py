#!/usr/bin/env python3
"""Checks that the test cases named in the last column of docs/design.md's tables exist. A name may be the beginning of a longer
one; paths there are documented_paths.cmake's.

    tests/rules/named_tests.py ROOT"""

import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((root / "tests").rglob("*_test.cpp")))
    cases = [re.sub(r'"\s+"', "", name) for name in re.findall(r'TEST_CASE\(\s*"((?:[^"]|"\s+")*)"', sources)]
    named, missing = 0, []
    for line in (root / "docs/design.md").read_text(encoding="utf-8").splitlines():
        if not line.startswith("| "):
            continue
        for name in re.findall("`([a-z_]+(?: [a-z_]+)*: [^`]*)`", line.rsplit("|", 2)[1]):
            named += 1
            if not any(case.startswith(name) for case in cases):
                missing.append(name)
    for name in missing:
        print(f"docs/design.md names a test that is not there: {name}", file=sys.stderr)
    print(f"{named} tests are named")
    return 1 if missing or not named else 0


if __name__ == "__main__":
    sys.exit(main())
