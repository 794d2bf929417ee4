#!/usr/bin/env python3
"""Kills examples/custom_loop at random, starts it again each time, and compares its weights with
those of an untouched run: alone and with two and three workers.

    tests/process/custom_loop_kills.py <build folder> [kills] [seed] [workers: 1,2,3]
"""
import json, os, random, signal, subprocess, sys, tempfile, time

build, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10
random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
# 20 steps an epoch: far more steps than the killed runs take.
FLAGS = ["--batch-size", "50", "--train-examples", "1000", "--epochs", "6", "--clip", "0.1", "--json-summary"]


def command(workers, flags):
    program = [f"{build}/examples/custom_loop", *FLAGS, *flags]
    if workers == 1:
        return program
    return [f"{build}/troupe", "run", "--workers", str(workers), "--no-prefix", "--", *program]


def train(workers, flags=()):
    done = subprocess.run(command(workers, flags), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{workers} worker(s): exit code {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def kill_once(workers, flags):
    """Ends a run with all its processes, a moment after one of its first saves. Returns the step."""
    run = subprocess.Popen(command(workers, flags), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                           text=True, start_new_session=True)
    saves = random.randint(0, 6)
    step = 0
    for line in run.stderr:
        if "resuming at step" in line:
            step = int(line.split("resuming at step ")[1].split()[0])
        if "saved " in line:
            step = int(line.split("model.ckpt-")[1].split()[0])
            saves -= 1
        if saves < 0:
            break
    time.sleep(random.random() * 0.1)  # anywhere between two saves, or within one
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return step


failed = False
for workers in [int(n) for n in (sys.argv[4] if len(sys.argv) > 4 else "1,2,3").split(",")]:
    expected = train(workers)
    with tempfile.TemporaryDirectory() as directory:
        flags = ["--model-dir", directory, "--save-every", "1"]
        steps = [kill_once(workers, flags) for _ in range(kills)]
        end = train(workers, flags)
    same = end["parameter_hash"] == expected["parameter_hash"] and end["test"] == expected["test"]
    print(f"{workers} worker(s), killed near steps {steps} of {expected['global_step']}: "
          f"{end['parameter_hash'][:16]}, untouched {expected['parameter_hash'][:16]}: "
          f"{'equal' if same else 'DIFFERENT'}", flush=True)
    failed = failed or not same
sys.exit(failed)
