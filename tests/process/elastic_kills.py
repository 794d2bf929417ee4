#!/usr/bin/env python3
"""An elastic group under random kills and stops, against the run that nobody disturbed.

    tests/process/elastic_kills.py BUILD [--kills N] [--stops N] [--seed S] [--program mnist|net]

Workers get SIGKILL at random moments (any of them, the chief, sometimes two at once, but one that holds the
state stays alive), and SIGSTOP, after which they are expelled. Compared are exit code, parameter_hash, the reports of
training, validation and test, and the epochs' examples; printed is the time from each kill to the next step
that is complete. Nothing may be left running.
"""
import argparse, datetime, json, os, random, re, shutil, signal, subprocess, sys, tempfile, threading, time

options = argparse.ArgumentParser()
options.add_argument("build")
options.add_argument("--kills", type=int, default=10)
options.add_argument("--stops", type=int, default=0)
options.add_argument("--seed", type=int, default=1)
options.add_argument("--workers", type=int, default=3)
options.add_argument("--pause", type=float, default=1.6, help="mean, in seconds, between two disturbances")
options.add_argument("--program", choices=("mnist", "net"), default="mnist")
options.add_argument("--epochs", type=int, default=0, help="0: enough for what is to be done")
asked = options.parse_args()
KEYS = ("parameter_hash", "train", "validation", "test", "global_step")
HEARTBEAT = 2  # seconds
chance = random.Random(asked.seed)
folder = tempfile.mkdtemp(prefix="elastic-kills-")


def program(epochs):
    if asked.program == "net":
        own = [f"{asked.build}/tests/process/virtual_net", "--virtual-replicas", "8", "--batch-size", "40",
               "--clip-norm", "0.5", "--ema-decay", "0.9"]
    else:
        own = [f"{asked.build}/examples/mnist", "--virtual-replicas", "4", "--data-dir", "synthetic",
               "--train-examples", "4000"]
    return own + ["--threads", "1", "--epochs", str(epochs), "--log-every", "1", "--json-summary",
                  "--save-checkpoints-steps", "50", "--no-tune-malloc"]


def summary(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def epochs_of(text):
    return [match.groups() for match in re.finditer(r"(epoch \d+): train: examples = (\d+)", text)]


def stamp(line):
    found = re.search(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z", line)
    if not found:
        return None
    moment = datetime.datetime.strptime(found.group(1), "%Y-%m-%dT%H:%M:%S.%f")
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


class Run:
    """The group, and what its launcher and its workers print, with the time of each line."""

    def __init__(self, command):
        self.lines, self.begun = [], False
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append((time.time(), line.rstrip("\n")))
                self.begun = self.begun or " step = " in line
                self.changed.notify_all()

    def workers(self):
        """slot -> pid, of those that run."""
        found = {}
        try:
            children = open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()
        except OSError:
            return found
        for pid in children:
            try:
                variables = dict(entry.split("=", 1) for entry in open(f"/proc/{pid}/environ").read().split("\0") if "=" in entry)
                state = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if "TROUPE_RANK" in variables and state != "Z":
                found[int(variables["TROUPE_RANK"])] = int(pid)
        return found

    def text(self):
        return "\n".join(line for _, line in self.lines)


def main():
    epochs = asked.epochs or max(2, int((asked.kills + asked.stops * 2.5) * asked.pause * 0.9))
    alone = subprocess.run(program(epochs) + ["--model-dir", f"{folder}/alone"], capture_output=True, text=True)
    if alone.returncode != 0:
        sys.exit(f"the undisturbed run: exit code {alone.returncode}\n{alone.stderr[-2000:]}")
    expected = summary(alone.stdout)
    command = [f"{asked.build}/troupe", "run", "--workers", str(asked.workers), "--min-workers", "1",
               "--max-restarts", "1000", "--no-progress", "--", *program(epochs), "--model-dir", f"{folder}/elastic",
               "--heartbeat-timeout", str(HEARTBEAT)]
    run = Run(command)
    with run.changed:
        run.changed.wait_for(lambda: run.begun, 60)
    kills, stops = disturb(run)
    code = run.process.wait()
    run.reader.join()
    text = run.text()
    open(f"{folder}/elastic.log", "w").write("\n".join(f"{at:.3f} {line}" for at, line in run.lines))
    problems = []
    if code != 0:
        problems.append(f"exit code {code}")
    else:
        own = summary("\n".join(line.split("] ", 1)[-1] for line in text.splitlines()))
        problems += [f"{key}: {own.get(key)} instead of {expected.get(key)}" for key in KEYS if own.get(key) != expected.get(key)]
    if sorted(set(epochs_of(text))) != sorted(set(epochs_of(alone.stderr))):
        problems.append("the epochs' examples differ")
    starts = len(re.findall(r"strategy multi-worker", text))
    if starts > asked.workers + len(re.findall(r"started again \(", text)):
        problems.append("more workers were started than were lost")
    left = subprocess.run(["pgrep", "-f", f"{folder}/elastic"], capture_output=True, text=True).stdout.split()
    if left:
        problems.append(f"still running: {left}")
    times = recoveries(run, kills)
    journal = [json.loads(line) for line in open(f"{folder}/elastic/run.jsonl")]
    waits = [event["seconds"] for event in journal if event["event"] == "joined"]
    describe("from a kill to the next complete step", times)
    describe("from a stop to the next complete step", recoveries(run, stops))
    describe("stood still for one that joins", waits)
    print(f"{len(kills)} kills, {len(stops)} stops, {epochs} epochs, {expected['global_step']} steps, hash "
          f"{expected['parameter_hash'][:16]}: {'; '.join(problems) or 'equal, exit code 0, nothing left'}")
    if problems:
        sys.exit(f"see {folder}")
    shutil.rmtree(folder)


def disturb(run):
    kills, stops = [], []
    todo = ["kill"] * asked.kills + ["stop"] * asked.stops
    chance.shuffle(todo)
    while todo and run.process.poll() is None:
        time.sleep(chance.uniform(0.3, 2 * asked.pause))
        alive = in_round(run)
        if len(alive) < 2:
            continue
        what = todo[0]
        count = 2 if what == "kill" and len(todo) > 1 and todo[1] == "kill" and len(alive) > 2 and chance.random() < 0.15 else 1
        victims = chance.sample(sorted(alive), count)
        at = time.time()
        for victim in victims:
            try:
                os.kill(alive[victim], signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            except ProcessLookupError:
                continue
            todo.pop(0)
        (kills if what == "kill" else stops).append(at)
    return kills, stops


def in_round(run):
    """slot -> pid of the workers that hold the state, as the lines say; not those that are about to get it."""
    alive, without = run.workers(), set()
    with run.changed:
        lines = [line for _, line in run.lines]
    for line in lines:
        lost = re.match(r"troupe: worker/(\d+) (was|exited|gave)", line)
        came = re.match(r"\[worker/(\d+)\] .* joined the run after step", line)
        if lost:
            without.add(int(lost.group(1)))
        elif came:
            without.discard(int(came.group(1)))
    return {slot: pid for slot, pid in alive.items() if slot not in without}


def recoveries(run, moments):
    times = []
    for at in moments:
        round_at = next((i for i, (when, line) in enumerate(run.lines)
                         if when >= at and re.match(r"troupe: round \d+: \d+ worker", line)), None)
        if round_at is None:
            continue
        found = re.search(r"after step (\d+)", run.lines[round_at][1])
        if not found:
            continue
        step = int(found.group(1))
        for _, line in run.lines:
            logged = re.search(r" step = (\d+)", line)
            if logged and int(logged.group(1)) == step + 1 and stamp(line) and stamp(line) >= at:
                times.append(stamp(line) - at)
                break
    return times


def describe(what, times):
    if not times:
        return
    times = sorted(times)
    at = lambda share: times[min(len(times) - 1, int(share * len(times)))]
    print(f"{what}: {len(times)} times, median {at(0.5):.3f} s, 99th percentile {at(0.99):.3f} s, largest {times[-1]:.3f} s")


main()
