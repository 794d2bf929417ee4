#!/usr/bin/env python3
"""Checks that tests do not look at the clock, on a machine that may be busy:

- an upper bound on time stands in a test case whose name says "within <a time>" (tests/CMakeLists.txt lets it run alone);
- only support/eventually.h sleeps; a shell's sleep is in an until loop, or so long that somebody must end it;
- who waits for a process or an event waits for at least 60 s;
- ctest gives every test at least 300 s.

    tests/rules/clocks.py FOLDER"""

import pathlib
import re
import sys

WITHIN = re.compile(r" within ([0-9]+ s|two seconds|the heartbeat timeout)")
SLEEPS = re.compile(r"\b(sleep_for|sleep_until|usleep)\(")
BOUND = re.compile(r"\b(CHECK|REQUIRE)\w*\(.*(now\(\) - |since\(|waited|took|elapsed)[^<>]*<[^<]")
SHELL_SLEEP = re.compile(r"(do |do\\n)?\bsleep ([0-9]+(?:[.][0-9]+)?)")
WAIT = re.compile(r"(?:run_process|eventually|[.>]wait)\(.*\b(milli)?seconds\(([0-9']+)\)")
TIMEOUT = re.compile(r"\bTIMEOUT ([0-9]+)")


def complaints(path, text):
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        at = f"{path}:{number}: "
        name = line if "TEST_CASE(" in line else name + line if name.endswith("(") else name
        if path.suffix in {".cpp", ".h"}:
            if SLEEPS.search(line) and path.name != "eventually.h":
                yield at + "sleeps: use eventually(), or take_time() for what takes long"
            if BOUND.search(line) and not WITHIN.search(name):
                yield at + 'an upper bound on time: give the case a name with " within N s", or wait for the event'
            for milli, count in WAIT.findall(line):
                if int(count.replace("'", "")) < (60_000 if milli else 60):
                    yield at + "waits for less than 60 s, which a busy machine may need"
        if path.name == "CMakeLists.txt":
            yield from (at + f"TIMEOUT {s}: at least 300" for s in TIMEOUT.findall(line) if int(s) < 300)
            continue
        for loop, seconds in SHELL_SLEEP.findall(line):
            if not loop and float(seconds) < 100:
                yield at + f"sleep {seconds}: wait for the event in an until loop"


def main():
    root = pathlib.Path(sys.argv[1])
    found = []
    for path in sorted(root.rglob("*")):
        planted = "planted_clocks" in path.relative_to(root).parts
        if path.is_file() and not planted and path.suffix in {".cpp", ".h", ".sh", ".py", ".txt", ".cmake"}:
            found += complaints(path.relative_to(root), path.read_text(encoding="utf-8"))
    print("\n".join(found + [f"{len(found)} looks at the clock"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
