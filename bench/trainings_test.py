#!/usr/bin/env python3
"""trainings.py finds the Python of a build's LibTorch, and refuses one of another LibTorch: builds and Pythons here only say
what they are."""

import argparse
import contextlib
import io
import pathlib
import sys
import tempfile

import trainings


def expect(what, outcome, expected):
    if outcome != expected:
        sys.exit(f"{what}: expected {expected}, got {outcome}")


def program(path, text):
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def build(folder, torch, version):
    """A build folder whose LibTorch has its CMake files in `torch`."""
    program(folder / "troupe", f"""echo '{{"libtorch": {{"version": "{version}"}}}}'; exit 1""")
    (folder / "CMakeCache.txt").write_text(f"Other_DIR:PATH=/elsewhere\nTorch_DIR:PATH={torch}\n")
    return folder


def peer(folder, python=None):
    return trainings.peer_of(argparse.Namespace(build=folder, python=python))


def outcome_of(call, *arguments):
    """(what it returns or the exit code, what it writes)"""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            result = call(*arguments)
        except SystemExit as end:
            result = end.code
    return result, said.getvalue()


def refused(what, texts, call, *arguments):
    code, said = outcome_of(call, *arguments)
    missing = [text for text in (*texts, "bench: error: ", "Fix: ") if text not in said]
    expect(f"{what}, with '{said.strip()}'", (code, missing), (3, []))


BUILDS = trainings.ROOT / "build"
newest = (trainings.ROOT / "cmake/pip_torch_version").read_text().strip()
for where, folder in (("system", "release"), ("pip", f"release-pip-{newest}"), ("pip:2.11.0", "release-pip-2.11.0")):
    expect(f"--torch {where}", trainings.build_of(where), BUILDS / folder)
    expect(f"options of --torch {where}", trainings.parser_for("").parse_args(["--torch", where]).build, BUILDS / folder)
expect("no option", trainings.parser_for("").parse_args([]).build, BUILDS / "release")
expect("--build after --torch", trainings.parser_for("").parse_args(["--torch", "pip", "--build", "x"]).build, pathlib.Path("x"))
for where in ("pip:", "pip:newest", "pip2.11.0", "/opt/libtorch", ""):
    try:
        sys.exit(f"--torch '{where}' is {trainings.build_of(where)}")
    except argparse.ArgumentTypeError as error:
        expect(f"--torch '{where}' says what to write", "Fix: write system, pip or pip:VERSION" in str(error), True)

for one, other, same in (("1.13.0", "1.13.0a0", True), ("1.13.0", "1.13.1", True), ("2.15.0", "2.15.0+cu132", True),
                         ("2.1.0", "2.11.0", False), ("2.11.0", "2.15.0", False), ("1.13.0", "2.13.0", False), ("", "2.15.0", False)):
    expect(f"{one} and {other}", trainings.same_torch(one, other), same)

with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    python = program(work / "venv/bin/python3", "echo 2.15.0+cu132")
    other = program(work / "other/python3", "echo 2.11.0+cpu")
    bare = program(work / "bare/bin/python3", "exit 1")
    in_venv = work / "venv/lib/python3.11/site-packages/torch/share/cmake/Torch"
    expect("a virtual environment's", trainings.python_of(build(work / "a", in_venv, "2.15.0")), python)
    system = program(work / "usr/bin/python3", "echo 1.13.0a0")
    expect("the system's", trainings.python_of(build(work / "b", work / "usr/lib/x/cmake/Torch", "1.13.0")), system)
    archive = build(work / "c", work / "libtorch/share/cmake/Torch", "2.15.0")
    expect("an archive's", trainings.python_of(archive), None)
    refused("no build", (str(work / "none"),), trainings.python_of, work / "none")
    (work / "c/CMakeCache.txt").write_text("Torch_DIR:PATH=Torch_DIR-NOTFOUND\n")
    refused("a build without LibTorch", (str(archive),), trainings.python_of, archive)
    expect("the same LibTorch", peer(work / "a"), (python, "2.15.0+cu132"))
    expect("Debian's", peer(work / "b"), (system, "1.13.0a0"))
    expect("--python", peer(archive, python), (python, "2.15.0+cu132"))
    refused("another LibTorch", ("LibTorch 2.15.0", "torch 2.11.0+cpu", other), peer, work / "a", other)
    refused("--python without torch", (f"{bare} has no torch.distributed",), peer, work / "a", bare)
    refused("--python that is not there", ("/no/python3 has no torch.distributed",), peer, work / "a", "/no/python3")
    for what, torch, why in (("no torch", "bare/lib/Torch", f"{bare} has no torch.distributed"),
                             ("no Python", "libtorch/share/cmake/Torch", "this build's LibTorch comes without Python")):
        found, said = outcome_of(peer, build(work / what, work / torch, "2.15.0"))
        expect(what, (found, said.startswith(f"left out, {why}")), ((None, None), True))
print("trainings.py: every case as expected")
