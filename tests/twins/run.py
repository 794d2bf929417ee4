#!/usr/bin/env python3
"""Takes defences out of the code, one at a time, and sees a test fail for each.

    tests/twins/run.py [--only NAME...] [--jobs N]    build/twins: a copy of the tree, and its build; minutes
    tests/twins/run.py --check [--table FILE]         only whether the table still fits the code; no compiler

A twin is the code without one of its defences. twins.toml has the table: for each twin the promise that it breaks
(docs/security.md), the edits that make it, and the tests that have to notice it. A twin has several edits where
one defence stands behind another.

Ends with 1 if a twin goes unnoticed, no longer applies or does not compile, or if a named test fails without any twin.
"""
import argparse
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

import edits

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMISES = [f"S{number}" for number in range(1, 10)]
TEST_SECONDS = 60  # a test that hangs has noticed, too
TEST_MEMORY = 8 << 30  # of addresses, for the twins that believe every length
OPTIONS = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DTROUPE_TORCH=OFF",
           "-DTROUPE_UNITY=OFF"]  # what is changed is compiled alone, and quickly


def named_tests(twin):
    return [(program, case) for program, cases in twin["tests"].items() for case in cases]


def cases_of_programs():
    """The names of all test cases by the test program that they are in."""
    cases = {}
    for folder in {path.parent for path in ROOT.glob("tests/**/CMakeLists.txt")}:
        for program, arguments in re.findall(r"troupe_test\(\s*(\w+)\s([^()]*)\)", (folder / "CMakeLists.txt").read_text()):
            sources = [folder / word for word in arguments.split() if word.endswith(".cpp")]
            text = "".join(source.read_text() for source in sources if source.is_file())
            cases[program] = re.findall(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"\)', text)
    return cases


def faults_of(twins):
    """What is wrong with the table, a sentence each."""
    faults = []
    known = cases_of_programs()
    names = [twin["name"] for twin in twins]
    faults += [f"{name}: two twins have this name" for name in sorted(set(names)) if names.count(name) > 1]
    faults += [f"{promise}: no twin breaks this promise" for promise in PROMISES
               if not any(promise in twin["promises"] for twin in twins)]
    for twin in twins:
        faults += [f"{twin['name']}: there is no promise {promise}" for promise in twin["promises"] if promise not in PROMISES]
        faults += [f"{twin['name']}: {program} has no test case '{case}'" for program, case in named_tests(twin)
                   if case not in known.get(program, [])]
    return faults + edits.faults_of(twins, edits.sources(ROOT))


class Copy:
    """The tree and its build, apart from the one that is worked on. Kept: the next run compiles what has changed."""

    def __init__(self, folder, jobs, options=OPTIONS):
        self.tree, self.build, self.jobs, self.options = folder / "tree", folder / "build", jobs, options

    def refresh(self):
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout
        files = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
        there = {str(path.relative_to(self.tree)) for path in self.tree.rglob("*") if path.is_file()}
        for name in there - files:
            (self.tree / name).unlink()
        for name in files:
            if name in there and (self.tree / name).read_bytes() == (ROOT / name).read_bytes():
                continue  # with its date, so that it is not compiled again
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)

    def configure(self):
        chosen = "CMAKE_CXX_COMPILER_LAUNCHER" in os.environ or not shutil.which("ccache")
        launcher = [] if chosen else ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
        run_or_stop(["cmake", "-S", self.tree, "-B", self.build, *self.options, *launcher])

    def compile(self, programs):
        """Why it does not compile; "" where it does."""
        done = subprocess.run(["cmake", "--build", self.build, "--parallel", str(self.jobs), "--target", *sorted(programs)],
                              capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout[-3000:] + done.stderr[-1000:]

    def program(self, name):
        return next(path for path in (self.build / "tests").rglob(name) if path.is_file() and os.access(path, os.X_OK))

    def passes(self, program, case):
        """Runs one test case.  Raises where the program has none of this name."""
        # A comma would part two filters; to the filter ? is any character.
        process = subprocess.Popen([self.program(program), "--test-case=" + case.replace(",", "?")], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (TEST_MEMORY, TEST_MEMORY)))
        try:
            out, _ = process.communicate(timeout=TEST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False
        if re.search(r"test cases: *0 [|]", out):
            raise ValueError(f"{program} ran no test case '{case}'")
        return process.returncode == 0

    def write(self, files):
        for name, text in files.items():
            (self.tree / name).write_text(text)


def run_or_stop(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"twins: {command[0]} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def see(twin, copy):
    """One twin: the line for it, and whether a test noticed."""
    label = f"{'/'.join(twin['promises'])} {twin['name']}"
    try:
        sound = edits.sources(copy.tree)
        files = edits.edited(twin, sound)
    except ValueError as error:
        return f"ERROR      {label}: {error}", False
    try:
        copy.write(files)
        trouble = copy.compile(twin["tests"])
        if trouble:
            return f"ERROR      {label}: it does not compile. Fix its edits in twins.toml:\n{trouble}", False
        by, not_by = [], []
        for program, case in named_tests(twin):
            (not_by if copy.passes(program, case) else by).append(f"{program} '{case}'")
    finally:
        copy.write({name: sound[name] for name in files})
    verdict = "noticed   " if by else "UNNOTICED "
    return f"{verdict} {label}: by {', '.join(by) or 'none'}" + (f"; not by {', '.join(not_by)}" if not_by else ""), bool(by)


def see_all(twins, copy):
    copy.refresh()
    copy.configure()
    programs = {program for twin in twins for program, _ in named_tests(twin)}
    print(f"twins: building {' '.join(sorted(programs))} in {copy.build}", flush=True)
    trouble = copy.compile(programs)
    if trouble:
        sys.exit(f"twins: the code does not compile even without a twin:\n{trouble}")
    failing = [f"{program} '{case}'" for program, case in sorted({test for twin in twins for test in named_tests(twin)})
               if not copy.passes(program, case)]
    if failing:
        sys.exit("twins: without a twin these must pass, and do not: " + ", ".join(failing))
    unnoticed = 0
    for twin in twins:
        line, noticed = see(twin, copy)
        print(line, flush=True)
        unnoticed += not noticed
    print(f"twins: {len(twins) - unnoticed} of {len(twins)} were noticed")
    return 1 if unnoticed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare the table with the code")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these twins alone")
    parser.add_argument("--table", type=pathlib.Path, default=pathlib.Path(__file__).with_name("twins.toml"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    arguments = parser.parse_args()
    twins = edits.entries(arguments.table)
    if arguments.check:
        faults = faults_of(twins)
        print("\n".join(faults) or f"twins: all {len(twins)} apply, and their tests exist")
        return 1 if faults else 0
    if arguments.only:
        unknown = set(arguments.only) - {twin["name"] for twin in twins}
        if unknown:
            sys.exit(f"twins: there is no twin {', '.join(sorted(unknown))}. Fix: use names of {arguments.table}.")
        twins = [twin for twin in twins if twin["name"] in arguments.only]
    return see_all(twins, Copy(ROOT / "build" / "twins", arguments.jobs))


if __name__ == "__main__":
    sys.exit(main())
