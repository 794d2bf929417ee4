#!/usr/bin/env python3
"""What a parameter server's memory grows by over a long run: examples/mnist on two asynchronous workers and one server.

    tests/attack/server_memory.py BUILD [--runs 10] [--steps 20000]

Each run is one row: resident MiB after 500 steps, at its end and the difference. It may be 16 MiB and 0.3 of the values, an
optimiser's state of their size and one message of each worker. Every other run leaves malloc as it is. Exit code 1: a run grew by more."""
import argparse, os, pathlib, re, subprocess, sys

WORKERS = 2
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--runs", type=int, default=10)
parser.add_argument("--steps", type=int, default=20000)
options = parser.parse_args()


def server_of(launcher):
    """The process id of the launcher's server."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(parent) == launcher and b"TROUPE_TASK=ps:0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                return pid
        except OSError:  # it has ended
            pass
    sys.exit("server_memory: error: the launcher has no server.")


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def run(flags):
    """Resident MiB after 500 steps and at the last line before the end, and the bytes of all parameters."""
    program = [str(options.build / "examples/mnist"), "--data-dir", "synthetic", "--strategy", "parameter-server", "--batch-size", "2",
               "--max-steps", str(options.steps), "--epochs", "1000000", "--log-every", "500", "--no-progress", *flags]
    command = [str(options.build / "troupe"), "run", "--workers", str(WORKERS), "--ps", "1", "--no-prefix", "--", *program]
    memory, server = [], None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            step = re.search(r"loss = .*, step = (\d+)", line)
            if step and int(step.group(1)) >= 500:
                server = server or server_of(process.pid)
                try:
                    memory.append(resident(server))
                except OSError:  # it has ended
                    pass
            found = re.search(r"all trained parameters are (\d+)", line)
            if found:
                parameters = int(found.group(1))
    if process.returncode != 0 or len(memory) < 2:
        sys.exit(f"server_memory: error: {' '.join(command)} ended with {process.returncode}, {len(memory)} readings.")
    return memory[0], memory[-1], parameters


failed = 0
print("| malloc | after 500 steps | at the end | difference | allowed |\n|---|---|---|---|---|")
for number in range(options.runs):
    ours = number % 2 == 0
    first, last, parameters = run([] if ours else ["--no-tune-malloc"])
    allowed = 16 + 0.3 * (2 + WORKERS) * parameters / 2**20
    failed += last - first > allowed
    print(f"| {'as Troupe sets it' if ours else '--no-tune-malloc'} | {first:.1f} | {last:.1f} | {last - first:+.1f} | {allowed:.1f} |",
          flush=True)
sys.exit(1 if failed else 0)
