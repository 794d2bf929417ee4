#!/usr/bin/env python3
"""How long things take to begin: the tool, a group of workers, a training; against Python's torch of the
same LibTorch, where it is installed (Debian: python3-torch).

    bench/start_up.py [--build build/release | --torch pip] [--python PYTHON] [--json build/release/bench/start_up.json]

A time is from before the process is started to a line that it prints: when its group has come together, or
after its first step. Peak memory is the kernel's, at that line."""

import dataclasses
import json
import os
import pathlib
import socket
import statistics
import subprocess
import time
import typing

import ensemble
import trainings

LIMIT_SECONDS = 60  # of one start
PEERS = pathlib.Path(__file__).resolve().parent / "peers"


@dataclasses.dataclass(frozen=True)
class Row:
    label: str
    measure: typing.Callable  # returns {"seconds": ..., perhaps "peak_mib": ..., ...}
    against: str = ""  # label of the row that it is divided by
    target: str = ""


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")}


def whole_run(command):
    """From start to end of a process."""
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False,
                          timeout=LIMIT_SECONDS)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise trainings.Failed(f"ended with {done.returncode}: {' '.join(command)}\n{done.stderr[-3000:]}")
    return {"seconds": seconds}


def until_line(command, word):
    """From the start of a process to its first line with `word`, with the most memory that it had until
    then. The process ends there."""
    start = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env=clean_environment()) as process:
        lines = []
        try:
            for line in process.stdout:
                if word in line:
                    seconds = time.monotonic() - start
                    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                    peak = next(field for field in status.splitlines() if field.startswith("VmHWM:"))
                    return {"seconds": seconds, "peak_mib": int(peak.split()[1]) / 1024}
                lines.append(line)
        finally:
            process.kill()
    raise trainings.Failed(f"no line with '{word}': {' '.join(command)}\n{''.join(lines)[-3000:]}")


def group_of(commands, environments, members):
    """From the start of the first process to the moment when the last member had its group."""
    start = time.monotonic()
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**clean_environment(), **environment})
                 for command, environment in zip(commands, environments)]
    reports = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=LIMIT_SECONDS)
            if process.returncode != 0:
                raise trainings.Failed(f"ended with {process.returncode}: {process.args}\n{err[-3000:]}")
            reports += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    finally:
        for process in processes:
            process.kill()
    if len(reports) != members:
        raise trainings.Failed(f"{len(reports)} of {members} members reported: {commands[0]}")
    result = {"seconds": max(report["ready"] for report in reports) - start}
    if "imported" in reports[0]:  # what is left when everybody had loaded the library
        result["joining_seconds"] = (max(report["ready"] for report in reports) -
                                     max(report["imported"] for report in reports))
    return result


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def launched_group(tool, worker, workers):
    command = [tool, "run", "--workers", str(workers), "--no-prefix", "--", worker]
    return group_of([command], [{}], workers)


def group_by_hand(worker, workers):
    """Nobody listens before the workers come: the chief is started last."""
    port = free_port()
    return group_of([[worker]] * workers,
                    [{"TROUPE_RANK": str(rank), "TROUPE_WORLD_SIZE": str(workers),
                      "TROUPE_CHIEF_ADDRESS": f"127.0.0.1:{port}"} for rank in reversed(range(workers))],
                    workers)


def gloo_group(python, workers):
    port = free_port()
    return group_of([[python, str(PEERS / "gloo_group.py")]] * workers,
                    [{"RANK": str(rank), "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1",
                      "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"} for rank in range(workers)],
                    workers)


def rows_of(options, python):
    tool = trainings.need(options.build / "troupe")
    mnist = trainings.need(options.build / "examples/mnist")
    linear = trainings.need(options.build / "examples/linear_regression")
    worker = trainings.need(options.build / "bench/group_start")
    alone = trainings.need(options.build / "bench/first_step")
    workers = options.workers
    one_by_one = ["--log-every", "1", "--threads", "1"]
    training = one_by_one + ["--data-dir", options.data_dir]
    rows = [
        Row("troupe --help", lambda: whole_run([tool, "--help"]), target="< 10 ms"),
        Row("/bin/true", lambda: whole_run(["/bin/true"])),
        Row("troupe run, 1 x /bin/true", lambda: whole_run([tool, "run", "--workers", "1", "--", "/bin/true"]),
            target="< 10 ms more than /bin/true"),
        Row(f"group of {workers} ready, troupe run", lambda: launched_group(tool, worker, workers),
            "group, Gloo", "< 50 ms, 20 x"),
        Row(f"group of {workers} ready, started by hand", lambda: group_by_hand(worker, workers),
            "group, Gloo"),
        Row("examples/linear_regression, first step",
            lambda: until_line([linear, *one_by_one], "step = 1"), "import torch", "0.45 x, memory 0.75 x"),
        Row("examples/mnist, first step", lambda: until_line([mnist, *training], "step = 1"), "import torch",
            "0.45 x, memory 0.75 x"),
        Row("LibTorch alone, first tensor", lambda: until_line([alone, "tensor"], "tensor:"), "import torch"),
        Row("LibTorch alone, first step of that network", lambda: until_line([alone, "step"], "step:"), "import torch"),
    ]
    if python is None:
        return rows
    imports = [python, "-c", "import torch, sys; print('imported', flush=True); sys.stdin.read()"]
    return rows + [Row("group, Gloo", lambda: gloo_group(python, workers)),
                   Row("import torch", lambda: until_line(imports, "imported"))]


def compared(key, of, base):
    """Median over the rounds of of/base, "" where there is nothing to divide."""
    if base is None or key not in of[0]:
        return ""
    return f"{statistics.median([one[key] / other[key] for one, other in zip(of, base)]):.3f}"


def main():
    parser = trainings.parser_for(__doc__.split("\n", maxsplit=1)[0])
    trainings.add_python(parser)
    parser.add_argument("--workers", type=int, default=4, help="of a group")
    parser.add_argument("--data-dir", default="synthetic", help="MNIST's four files [generated digits]")
    options = parser.parse_args()
    if options.smoke:
        options.rounds = 1
    facts = trainings.machine_facts(trainings.need(options.build / "examples/mnist"))
    python, facts["python_torch"] = trainings.peer_of(options)
    rows = rows_of(options, python)
    results, stolen = trainings.interleaved(rows, options.rounds, lambda row: row.measure(),
                                            0 if options.smoke else trainings.RETAKES)

    by_label = {row.label: result for row, result in zip(rows, results)}
    table, report = [], []
    for row, result in zip(rows, results):
        base = by_label.get(row.against)
        peaks = [one["peak_mib"] for one in result if "peak_mib" in one]
        table.append([row.label, trainings.range_text([1000 * one["seconds"] for one in result], ".1f"),
                      compared("seconds", result, base),
                      trainings.range_text(peaks, ".0f") if peaks else "",
                      compared("peak_mib", result, base), row.target])
        report.append({"what": row.label, "against": row.against, "target": row.target, "runs": result,
                       "seconds": trainings.summary_of([one["seconds"] for one in result])})
    print(f"{options.rounds} rounds: median [min-max]; {facts['cpu']}, {facts['usable_cores']} cores\n")
    trainings.print_table(["from process start to", "ms", "/ Python's", "peak MiB", "/ Python's", "wanted"], table)
    print(f"\n{ensemble.stolen_line([stolen])}")
    joining = [one["joining_seconds"] for one in by_label.get("group, Gloo", []) if "joining_seconds" in one]
    if joining:
        print(f"\nGloo's ranks, all having imported torch, need {1000 * statistics.median(joining):.1f} ms of it.")
    trainings.write_json(options.json, {"benchmark": "start_up", "machine": facts, "workers": options.workers,
                                        "rows": report, "stolen_percent": stolen})


trainings.run_main(main)
