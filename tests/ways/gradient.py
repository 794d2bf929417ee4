#!/usr/bin/env python3
"""The way of a gradient: which of our own source files one step passes through.

    tests/ways/gradient.py [--build build/release] [--most 11]

It needs a build with one object file for each source: cmake ... -DTROUPE_UNITY=OFF, programs regression and troupe_tool.

How it counts: two workers on this machine train regression for three steps over shared memory. Rank 1 runs under
gdb, which stops at every function of ours that the thread of Replica::apply_gradients enters, down to its return, in the
third step (buffers are made in the first), and notes the stack. A function belongs to the .cpp file whose object file in
the build folder defines it; inline functions of headers belong to nobody. core/ is everybody's vocabulary and is listed
apart. A file is *entered twice* if it is on the stack, then another of these files, and then it again.

Exit codes: 0; 1: more files than --most, or one is entered twice; 77: no gdb here."""

import argparse
import bisect
import collections
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

ENTRY = "_ZN6troupe7Replica15apply_gradients"
STEPS = 3


def source_of(path):
    return re.sub(r"CMakeFiles/[^/]*\.dir/", "", str(path)).removesuffix(".o")


def symbols_of_objects(build):
    """Source files by the functions that their object files define; weak ones, of headers, left out."""
    found = collections.defaultdict(set)
    objects = [path.relative_to(build) for path in build.rglob("*.cpp.o")]
    objects = [str(path) for path in objects if path.parts[0] not in ("tests", "examples", "bench")]
    listing = subprocess.run(["nm", "-A", "--defined-only", *objects], cwd=build, capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        where, rest = line.split(":", maxsplit=1)
        _, kind, name = rest.split(maxsplit=2)
        if kind in "Tt":
            found[name].add(source_of(where))
    return found


def functions_of(program, build):
    """(name, source file, end) by address in the program."""
    sources = symbols_of_objects(build)
    found, file = {}, ""
    table = subprocess.run(["readelf", "-sW", program], capture_output=True, text=True, check=True).stdout
    for line in table.split(".symtab", maxsplit=1)[1].splitlines():
        words = line.split()
        if len(words) != 8:
            continue
        if words[3] == "FILE":
            file = words[7]
        local = words[4] == "LOCAL"
        candidates = [source for source in sources.get(words[7], ()) if not local or source.endswith(f"/{file}")]
        if words[3] == "FUNC" and words[4] != "WEAK" and len(candidates) == 1 and int(words[2], 0) > 0:
            start = int(words[1], 16)
            found[start] = (words[7], candidates[0], start + int(words[2], 0))
    return found


def inside_gdb():
    """What gdb runs. Writes the stacks, innermost first, as lists of offsets in the program."""
    import gdb  # pylint: disable=import-error,import-outside-toplevel
    task = json.loads(pathlib.Path(os.environ["TROUPE_WAY"]).read_text(encoding="utf-8"))
    stacks = []
    for setting in ("pagination off", "confirm off", "breakpoint always-inserted on", "print thread-events off"):
        gdb.execute(f"set {setting}")
    gdb.execute("handle SIGPIPE SIGUSR1 nostop noprint pass")
    gdb.execute("starti", to_string=True)
    maps = pathlib.Path(f"/proc/{gdb.selected_inferior().pid}/maps").read_text(encoding="utf-8")
    base = min(int(line.split("-")[0], 16) for line in maps.splitlines() if line.endswith(task["program"]))

    class Note(gdb.Breakpoint):
        def stop(self):
            stack, frame = [], gdb.newest_frame()
            while frame is not None and len(stack) < 400:
                stack.append(frame.pc() - base)
                frame = frame.older()
            stacks.append(stack)
            return False

    entry = gdb.Breakpoint(f"*{base + task['entry']}")
    entry.ignore_count = STEPS - 1
    gdb.execute("continue", to_string=True)
    thread = gdb.selected_thread().num
    for offset in task["functions"]:
        note = Note(f"*{base + offset}")
        note.thread = thread
    entry.delete()
    gdb.execute("finish", to_string=True)
    gdb.execute("delete")
    pathlib.Path(task["answer"]).write_text(json.dumps(stacks), encoding="utf-8")
    gdb.execute("continue", to_string=True)


def function_at(offset, starts, functions):
    """(name, source file) of ours that the address is in; other code has none. Starts are those of our functions, so code
    of others, which lies behind one of ours, is told by the end of that."""
    place = bisect.bisect_right(starts, offset) - 1
    if place < 0:
        return "", None
    name, file, end = functions[starts[place]]
    return (name, file) if offset < end else ("", None)


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def stacks_of_a_step(program, functions, folder):
    """Stacks of a step, each innermost first, as offsets in the program."""
    entry = next(address for address, (name, _, _) in functions.items() if name.startswith(ENTRY) and "cold" not in name)
    task, answer, cluster = folder / "task.json", folder / "stacks.json", folder / "cluster.json"
    task.write_text(json.dumps({"program": str(program), "entry": entry, "answer": str(answer),
                                "functions": [address for address in functions if address != entry]}), encoding="utf-8")
    cluster.write_text(json.dumps({"worker": [f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"]}), encoding="utf-8")
    command = [program, "--cluster", cluster, "--max-steps", str(STEPS), "--transport", "shm", "--threads", "1",
               "--no-progress", "--heartbeat-timeout", "120", "--task"]
    with subprocess.Popen([*command, "worker:0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as chief:
        traced = subprocess.run(["gdb", "-batch", "-nx", "-x", __file__, "--args", *command, "worker:1"],
                                env={**os.environ, "TROUPE_WAY": str(task)}, capture_output=True, text=True, check=False)
        if not answer.exists():
            chief.kill()
            sys.exit(f"error: the run failed.\n{traced.stdout}\n{traced.stderr}\n{chief.communicate()[1]}")
    return json.loads(answer.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--most", type=int, default=11)
    options = parser.parse_args()
    if shutil.which("gdb") is None:
        print("left out: there is no gdb here.")
        sys.exit(77)
    build = options.build.resolve()
    program = build / "examples/regression"
    if not program.exists():
        sys.exit(f"error: there is no {program}: build the examples first.")
    if list(build.rglob("unity_*.cxx.o")):
        sys.exit("error: this build compiles sources in batches. Fix: configure another with -DTROUPE_UNITY=OFF.")
    functions = functions_of(program, build)
    with tempfile.TemporaryDirectory() as folder:
        stacks = stacks_of_a_step(program, functions, pathlib.Path(folder))
    starts = sorted(functions)
    entered, twice = collections.defaultdict(set), set()
    for stack in stacks:
        own = []  # files on the stack, outermost first, without repetition of neighbours
        for offset in reversed(stack):
            name, file = function_at(offset, starts, functions)
            if file is None or file.startswith("core/"):
                continue
            if name.startswith(ENTRY):
                own = []
            if not own or own[-1] != file:
                own.append(file)
        twice.update(file for file in own if own.count(file) > 1)
    for stack in stacks:
        name, file, _ = functions[stack[0]]
        entered[file].add(name)
    entered["hooks/replica.cpp"].add(next(name for name, _, _ in functions.values() if name.startswith(ENTRY)))
    core = sorted(file for file in entered if file.startswith("core/"))
    way = sorted(file for file in entered if not file.startswith("core/"))
    for file in way:
        print(f"{file}{'  entered twice' if file in twice else ''}")
        listing = subprocess.run(["c++filt", *sorted(entered[file])], capture_output=True, text=True, check=True).stdout
        print("".join(f"    {line[:110]}\n" for line in listing.splitlines()), end="")
    print(f"{len(way)} files, at most {options.most} wanted; entered twice: {', '.join(sorted(twice)) or 'none'}; "
          f"vocabulary: {', '.join(core) or 'none'}")
    sys.exit(0 if len(way) <= options.most and not twice else 1)


if "TROUPE_WAY" in os.environ:
    inside_gdb()
else:
    main()
