#!/usr/bin/env python3
"""Trains on a file four times as large as the memory of the control group that all processes are in: shuffled, on 1, 2 and 3
workers, with 1 and 4 loader threads, and killed and resumed. All must end with the same bits, and memory must stay flat, whatever the number
of loader threads.
Needs root, and a control group of either version; without one, memory is watched only.

    tests/process/stream_memory.py <build folder> [limit in MiB, 480]
"""
import json, os, pathlib, shutil, subprocess, sys, tempfile, threading, time

build = sys.argv[1]
limit = int(sys.argv[2]) << 20 if len(sys.argv) > 2 else 480 << 20
VALUES, BLOCK = 1024, 256  # a record of 4 KiB, a block of 1 MiB
KEYS = ("parameter_hash", "global_step")


def make_group():
    """A function that puts the calling process into a limited group, and the group's files; None: there is none."""
    v2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    root = pathlib.Path("/sys/fs/cgroup" if v2 else "/sys/fs/cgroup/memory") / f"troupe-stream-{os.getpid()}"
    try:
        root.mkdir()
        (root / ("memory.max" if v2 else "memory.limit_in_bytes")).write_text(str(limit))
    except OSError as error:
        print(f"no control group ({error}): memory is watched only")
        return None
    return root


def write_records(path, size):
    """Records whose first value is the sum of two others less a third."""
    import array, random
    numbers = random.Random(1)
    with open(path, "wb") as file:
        block = array.array("f", (numbers.random() - 0.5 for _ in range(VALUES * BLOCK)))
        while file.tell() < size:
            for at in range(0, len(block), VALUES):
                block[at + 1 + numbers.randrange(VALUES - 1)] = numbers.random() - 0.5
                block[at] = block[at + 1] + block[at + 2] - block[at + 3]
            file.write(block.tobytes())


def resident(pid):
    """Of the process and all below it, in bytes."""
    total = 0
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        total = sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(("RssAnon", "RssShmem")))
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            total += sum(resident(child) for child in (task / "children").read_text().split())
    except OSError:
        pass  # it has ended meanwhile
    return total


def run(group, records, workers=1, flags=(), env=None):
    command = [f"{build}/tests/process/trainings", "stream_net", "--records", records, "--values", str(VALUES), "--block", str(BLOCK),
               "--window", "16", "--virtual-replicas", "6", "--batch-size", "192", "--epochs", "1", "--threads", "1",
               "--learning-rate", "0.0001", "--log-every", "0", "--json-summary", *flags]
    if workers > 1:
        command = [f"{build}/troupe", "run", "--workers", str(workers), "--no-prefix", "--", *command]
    # The program joins the group by itself, so that this script is outside.
    join = f'echo $$ > {group}/cgroup.procs && exec "$@"' if group else 'exec "$@"'
    start = time.monotonic()
    done = subprocess.Popen(["sh", "-c", join, "sh", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})})
    seen = []
    ended = threading.Event()

    def watch():
        while not ended.wait(0.5):
            seen.append(resident(done.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = done.communicate()
    ended.set()
    watcher.join()
    seconds = time.monotonic() - start
    seen = seen[4:] or [0]  # after the start
    first, last = max(seen[: max(1, len(seen) // 4)]), max(seen[-max(1, len(seen) // 4):])
    grown = (last - first) / 2**20
    return done.returncode, out, err, f"{seconds:.0f} s, memory of its own {max(seen) / 2**20:.0f} MiB, grown by {grown:.0f} MiB", grown


group = make_group()
folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-stream-"))
wrong = 0
try:
    records = folder / "records"
    write_records(records, 4 * limit)
    print(f"{records.stat().st_size / 2**20:.0f} MiB of records, " + (f"{limit / 2**20:.0f} MiB of memory" if group else "no limit"))
    expected = None
    for workers, threads in ((1, 1), (1, 4), (2, 1), (3, 4)):
        code, out, err, facts, grown = run(group, str(records), workers, ("--loader-threads", str(threads)))
        if code != 0:
            sys.exit(f"{workers} workers, {threads} loader threads: exit code {code}\n{err[-2000:]}")
        ending = {key: json.loads(out.splitlines()[-1])[key] for key in KEYS}
        expected = expected or ending
        same = ending == expected
        wrong += (not same) + (grown > 32)
        print(f"{workers} workers, {threads} loader threads: {ending['parameter_hash'][:16]}, {ending['global_step']} steps, "
              f"{'the same' if same else 'DIFFERENT'}, {facts}", flush=True)
    saving = ("--model-dir", str(folder / "run"), "--save-every", "500")
    code, out, err, facts, grown = run(group, str(records), 1, saving, {"TEST_DEADLY_BLOCK": str(3 * limit // (VALUES * BLOCK * 4))})
    print(f"killed: exit code {code}, {facts}", flush=True)
    wrong += code == 0
    code, out, err, facts, grown = run(group, str(records), 2, (*saving, "--loader-threads", "4", "--resume", "must"))
    same = code == 0 and {key: json.loads(out.splitlines()[-1])[key] for key in KEYS} == expected
    wrong += not same
    print(f"resumed on 2 workers: {'the same' if same else 'DIFFERENT ' + err[-2000:]}, {facts}")
finally:
    shutil.rmtree(folder)
    if group:
        group.rmdir()
print("all the same" if not wrong else f"{wrong} wrong")
sys.exit(wrong != 0)
