#!/usr/bin/env python3
"""The way of a gradient, a batch or a save: which of our own source files one of them passes through.

    tests/ways/way.py gradient|batch|save [--build build/way] [--most N]

It needs a build with one object file for each source: cmake -B build/way -DTROUPE_UNITY=OFF ..., programs regression and
troupe_tool.

How it counts: a training of regression runs under gdb, which stops at every function of ours that is entered, in any thread,
below one of the way's entries, and notes the stack. For a gradient it is rank 1 of two workers that share memory, from
Replica::apply_gradients on, in the third step (buffers are made in the first). For a batch it is one process, from its threads that
read ahead and the step that takes the batch down to the optimiser, between the third step and the fourth. For a save it is one
process, from Checkpointer::save and its thread in the background on. A function belongs to the .cpp file whose object
file in the build folder defines it; inline functions of headers belong to nobody. core/ is everybody's vocabulary and is listed
apart. A file is *entered twice* if it is on the stack of a gradient, then another of these files, and then it again.

Exit codes: 0; 1: more files than --most, or one is entered twice; 77: no gdb here."""

import argparse
import bisect
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

STEPS = 3


@dataclasses.dataclass(frozen=True)
class Way:
    most: int  # files
    entries: tuple  # how the names of the functions begin, below which it lies
    starts_at: str  # the function whose STEPS-th call it begins with
    ends_at: str = ""  # the function whose next call ends it; "": that call's return
    workers: int = 1
    flags: tuple = ()  # DIR: a new folder


LOADER, STEP = "_ZN6troupe5Epoch", "_ZN6troupe11TrainingRun4Impl4step"
WAYS = {
    "gradient": Way(14, ("_ZN6troupe7Replica15apply_gradients",), "_ZN6troupe7Replica15apply_gradients", workers=2),
    "batch": Way(30, (LOADER, STEP), STEP, STEP),
    "save": Way(18, ("_ZN6troupe12Checkpointer4save", "_ZN6troupe12Checkpointer5write"),
                "_ZN6troupe12Checkpointer4save", "_ZN6troupe12Checkpointer4save", flags=("--model-dir", "DIR", "--save-every", "2")),
}


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

    whole = not task["ends"]  # every stack, of one thread; else each function's first below an entry

    class Note(gdb.Breakpoint):
        def stop(self):
            stack, frame = [], gdb.newest_frame()
            while frame is not None and len(stack) < 400:
                stack.append(frame.pc() - base)
                frame = frame.older()
            if whole or any(start <= pc < end for pc in stack for start, end in task["entries"]):
                stacks.append(stack)
                self.enabled = whole
            return False

    begin = gdb.Breakpoint(f"*{base + task['start']}")
    begin.ignore_count = STEPS - 1
    gdb.execute("continue", to_string=True)
    thread = gdb.selected_thread().num
    for offset in task["functions"]:
        note = Note(f"*{base + offset}")
        if whole:
            note.thread = thread
    if whole:
        begin.delete()
    gdb.execute("finish" if whole else "continue", to_string=True)
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


def stacks_of(way, program, functions, folder):
    """Stacks of the way, each innermost first, as offsets in the program."""
    def named(prefix):
        return [(start, end) for start, (name, _, end) in functions.items() if name.startswith(prefix) and "cold" not in name]
    start = named(way.starts_at)[0][0]
    task, answer, cluster = folder / "task.json", folder / "stacks.json", folder / "cluster.json"
    task.write_text(json.dumps({"program": str(program), "start": start, "ends": way.ends_at, "answer": str(answer),
                                "entries": [each for entry in way.entries for each in named(entry)],
                                "functions": [address for address in functions if address != start]}), encoding="utf-8")
    flags = [str(folder / "model") if flag == "DIR" else flag for flag in way.flags]
    command = [program, "--max-steps", str(STEPS if way.workers == 2 else 4 * STEPS), "--threads", "1", "--no-progress", *flags]
    with contextlib.ExitStack() as others:
        chief = None
        if way.workers == 2:
            cluster.write_text(json.dumps({"worker": [f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"]}), encoding="utf-8")
            command += ["--cluster", cluster, "--transport", "shm", "--heartbeat-timeout", "120", "--task"]
            chief = others.enter_context(subprocess.Popen([*command, "worker:0"], stdout=subprocess.DEVNULL,
                                                          stderr=subprocess.PIPE, text=True))
            command += ["worker:1"]
        traced = subprocess.run(["gdb", "-batch", "-nx", "-x", __file__, "--args", *command],
                                env={**os.environ, "TROUPE_WAY": str(task)}, capture_output=True, text=True, check=False)
        if not answer.exists():
            if chief:
                chief.kill()
            sys.exit(f"error: the run failed.\n{traced.stdout}\n{traced.stderr}\n{chief.communicate()[1] if chief else ''}")
    return json.loads(answer.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/way"))
    parser.add_argument("--most", type=int, help="files; default: the way's own limit")
    options = parser.parse_args()
    way = WAYS[options.way]
    most = options.most or way.most
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
        stacks = stacks_of(way, program, functions, pathlib.Path(folder))
    starts = sorted(functions)
    entered, twice = collections.defaultdict(set), set()
    for stack in stacks:
        own = []  # files on the stack, outermost first, without repetition of neighbours
        for offset in reversed(stack):
            name, file = function_at(offset, starts, functions)
            if file is None or file.startswith("core/"):
                continue
            if name.startswith(way.entries):
                own = []
            if not own or own[-1] != file:
                own.append(file)
        if options.way == "gradient":
            twice.update(file for file in own if own.count(file) > 1)
    for stack in stacks:
        name, file, _ = functions[stack[0]]
        entered[file].add(name)
    begun, file = next((name, file) for name, file, _ in functions.values() if name.startswith(way.starts_at))
    entered[file].add(begun)
    core = sorted(file for file in entered if file.startswith("core/"))
    files = sorted(file for file in entered if not file.startswith("core/"))
    for file in files:
        print(f"{file}{'  entered twice' if file in twice else ''}")
        listing = subprocess.run(["c++filt", *sorted(entered[file])], capture_output=True, text=True, check=True).stdout
        print("".join(f"    {line[:110]}\n" for line in listing.splitlines()), end="")
    print(f"{len(files)} files, at most {most} wanted; entered twice: {', '.join(sorted(twice)) or 'none'}; "
          f"vocabulary: {', '.join(core) or 'none'}")
    sys.exit(0 if len(files) <= most and not twice else 1)


if "TROUPE_WAY" in os.environ:
    inside_gdb()
else:
    main()
