#!/usr/bin/env python3
"""An elastic group under random kills and stops, against the run that nobody disturbed.

    tests/process/elastic_kills.py BUILD [--kills N] [--stops N] [--seed S] [--program mnist|net]
    tests/process/elastic_kills.py BUILD --kills 300 --stops 50
    tests/process/elastic_kills.py BUILD --widths                      # 4, 1, 4, 2, 3, 1 workers

Workers get SIGKILL at random moments (any of them, the chief, sometimes two at once, but one that holds the
state stays alive), and SIGSTOP, after which they are expelled. With --widths workers are killed, come back as
far as --max-restarts lets them, and leave by SIGTERM, so that the width takes just these values. Compared are exit
code, parameter_hash, the reports of training, validation and test, and the epochs' examples; printed is the time
from each kill to the next step that is complete, and how long the others stood still for one that joins. Nothing
may be left running.
"""
import argparse, bisect, datetime, json, os, random, re, shutil, signal, subprocess, sys, tempfile, threading, time

options = argparse.ArgumentParser()
options.add_argument("build")
options.add_argument("--kills", type=int, default=10)
options.add_argument("--stops", type=int, default=0)
options.add_argument("--seed", type=int, default=1)
options.add_argument("--workers", type=int, default=3)
options.add_argument("--pause", type=float, default=0.9, help="mean, in seconds, between two disturbances")
options.add_argument("--heartbeat", type=float, default=2, help="--heartbeat-timeout, in seconds")
options.add_argument("--widths", action="store_true", help="the schedule of widths in place of random kills")
options.add_argument("--program", choices=("mnist", "net"), default="mnist")
options.add_argument("--epochs", type=int, default=0, help="0: enough for what is to be done")
asked = options.parse_args()
KEYS = ("parameter_hash", "train", "validation", "test", "global_step")
WIDTHS = (1, 4, 2, 3, 1)  # after the first four
chance = random.Random(asked.seed)
folder = tempfile.mkdtemp(prefix="elastic-kills-")


def program(epochs):
    if asked.program == "net":
        own = [f"{asked.build}/tests/process/trainings", "virtual_net", "--virtual-replicas", "8", "--batch-size", "40",
               "--clip-norm", "0.5", "--ema-decay", "0.9"]
    else:
        own = [f"{asked.build}/examples/mnist", "--virtual-replicas", "4", "--data-dir", "synthetic",
               "--train-examples", "4000"]
    return own + ["--threads", "1", "--epochs", str(epochs), "--log-every", "1", "--json-summary",
                  "--save-every", "50", "--no-tune-malloc"]


def group(workers, restarts, epochs, folder):
    return [f"{asked.build}/troupe", "run", "--workers", str(workers), "--min-workers", "1", "--max-restarts",
            str(restarts), "--no-progress", "--", *program(epochs), "--model-dir", folder, "--heartbeat-timeout",
            str(asked.heartbeat)]


def undisturbed(epochs, folder):
    """One process. Two replicas have the same bits, and both cores; the net's random layers allow only one."""
    both = ["--devices", "cpu:0-1"] if asked.program == "mnist" else []
    done = subprocess.run(program(epochs) + both + ["--model-dir", folder], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the undisturbed run: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done


def epochs_for(seconds):
    """As many as a group needs that long for, by the faster of a short run with all workers and one with one."""
    short = 12
    rates = []
    for workers in (asked.workers, 1):
        done = subprocess.run(group(workers, 0, short, f"{folder}/rate{workers}"), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"a short run: exit code {done.returncode}\n{done.stderr[-2000:]}")
        rates.append(short / summary(unprefixed(done.stdout))["seconds"])
    return max(2, int(seconds * max(rates)) + 1)


def summary(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def unprefixed(text):
    return "\n".join(line.split("] ", 1)[-1] for line in text.splitlines())


def epochs_of(text):
    return {match.groups() for match in re.finditer(r"(epoch \d+): train: examples = (\d+)", text)}


def stamp(line):
    found = re.search(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z", line)
    if not found:
        return None
    moment = datetime.datetime.strptime(found.group(1), "%Y-%m-%dT%H:%M:%S.%f")
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


class Run:
    """The group, and what its launcher and its workers print, with the time of each line."""

    def __init__(self, command):
        self.lines, self.rounds, self.steps, self.without, self.begun = [], [], [], set(), False
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.take(time.time(), line.rstrip("\n"))
                self.changed.notify_all()

    def take(self, at, line):
        self.lines.append((at, line))
        step = re.search(r" step = (\d+)", line)
        if step and stamp(line):
            self.begun = True
            self.steps.append((stamp(line), int(step.group(1))))
        issued = re.match(r"troupe: round \d+: (\d+) workers?.* after step (\d+)", line)
        if issued:
            self.rounds.append((at, int(issued.group(1)), int(issued.group(2))))
        lost = re.match(r"troupe: worker/(\d+) (was|exited|gave)", line)
        came = re.match(r"\[worker/(\d+)\] .* joined the run after step", line)
        if lost:
            self.without.add(int(lost.group(1)))
        elif came:
            self.without.discard(int(came.group(1)))

    def wait_for(self, what, seconds=60):
        with self.changed:
            return self.changed.wait_for(lambda: what() or self.process.poll() is not None, seconds)

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

    def in_round(self):
        """slot -> pid of the workers that hold the state, as the lines say; not those that are about to get it."""
        alive = self.workers()
        with self.changed:
            return {slot: pid for slot, pid in alive.items() if slot not in self.without}

    def strike(self, victims, number):
        alive = self.in_round()
        for victim in victims:
            try:
                os.kill(alive[victim], number)
            except (KeyError, ProcessLookupError):
                pass

    def text(self):
        return "\n".join(line for _, line in self.lines)


def main():
    began = time.time()
    if asked.widths:
        workers, restarts, seconds = 4, 4, 25
    else:
        stop = asked.heartbeat + 1 + asked.pause
        workers, restarts, seconds = asked.workers, 1000, asked.kills * 0.9 * asked.pause + asked.stops * stop + 10
    epochs = asked.epochs or epochs_for(seconds)
    alone = undisturbed(epochs, f"{folder}/alone")
    expected = summary(alone.stdout)
    run = Run(group(workers, restarts, epochs, f"{folder}/elastic"))
    run.wait_for(lambda: run.begun)
    kills, stops = change_widths(run) if asked.widths else disturb(run)
    code = run.process.wait()
    run.reader.join()
    text = run.text()
    open(f"{folder}/elastic.log", "w").write("\n".join(f"{at:.3f} {line}" for at, line in run.lines))
    problems = []
    if code != 0:
        problems.append(f"exit code {code}")
    else:
        own = summary(unprefixed(text))
        problems += [f"{key}: {own.get(key)} instead of {expected.get(key)}" for key in KEYS if own.get(key) != expected.get(key)]
    if epochs_of(text) != epochs_of(alone.stderr):
        problems.append("the epochs' examples differ")
    starts = len(re.findall(r"strategy multi-worker", text))
    if starts > workers + len(re.findall(r"started again \(", text)):
        problems.append("more workers were started than were lost")
    if not asked.widths and len(stops) < asked.stops:
        problems.append("training was over before all was done")
    left = subprocess.run(["pgrep", "-f", f"{folder}/elastic"], capture_output=True, text=True).stdout.split()
    if left:
        problems.append(f"still running: {left}")
    journal = [json.loads(line) for line in open(f"{folder}/elastic/run.jsonl")]
    waits = [event["seconds"] for event in journal if event["event"] == "joined"]
    describe("from a kill to the next complete step", recoveries(run, [at for at, _ in kills]))
    describe("from a stop to the next complete step", recoveries(run, [at for at, _ in stops]))
    describe("stood still for one that joins", waits)
    if asked.widths:
        problems += widths_missed(run)
        print("widths:", "-".join(str(width) for width in widths_of(run)))
    count = lambda moments: sum(victims for _, victims in moments)
    print(f"{count(kills)} kills at {len(kills)} moments, {count(stops)} stops, {len(run.rounds)} rounds, {epochs} epochs, "
          f"{expected['global_step']} steps, {time.time() - began:.0f} s, hash {expected['parameter_hash'][:16]}: "
          f"{'; '.join(problems) or 'equal, exit code 0, nothing left'}")
    if problems:
        sys.exit(f"see {folder}")
    shutil.rmtree(folder)


def disturb(run):
    kills, stops = [], []
    todo = ["kill"] * asked.kills + ["stop"] * asked.stops
    chance.shuffle(todo)
    while todo and run.process.poll() is None:
        time.sleep(chance.uniform(0.2, 2 * asked.pause - 0.2))
        if not run.wait_for(lambda: len(run.in_round()) >= 2, 30):
            continue
        alive = run.in_round()
        if len(alive) < 2:
            continue
        what = todo[0]
        count = 2 if what == "kill" and todo[1:2] == ["kill"] and len(alive) > 2 and chance.random() < 0.3 else 1
        (kills if what == "kill" else stops).append((time.time(), count))
        run.strike(chance.sample(sorted(alive), count), signal.SIGKILL if what == "kill" else signal.SIGSTOP)
        del todo[:count]
        if what == "stop":
            rounds = len(run.rounds)
            run.wait_for(lambda: len(run.rounds) > rounds, asked.heartbeat + 10)
    return kills, stops


def change_widths(run):
    """Three of four die, and come again; two die, and one comes again; two are told to leave."""
    kills = []
    width = lambda: run.rounds[-1][1] if run.rounds else 4
    for step, wanted in enumerate(WIDTHS):
        time.sleep(1)
        members = sorted(run.in_round())
        if wanted < len(members):
            by = signal.SIGTERM if step == len(WIDTHS) - 1 else signal.SIGKILL
            if by == signal.SIGKILL:
                kills.append((time.time(), len(members) - wanted))
            run.strike(members[: len(members) - wanted], by)
        run.wait_for(lambda: width() == wanted)
    return kills, []


def widths_of(run):
    widths = [4]
    for _, width, _ in run.rounds:
        if width != widths[-1]:
            widths.append(width)
    return widths


def widths_missed(run):
    """The schedule, in order; losses that are noticed one after the other have widths between."""
    rest = iter(widths_of(run))
    missed = [wanted for wanted in WIDTHS if wanted not in rest]
    return [f"widths {missed} were not reached"] if missed else []


def recoveries(run, moments):
    """From each moment to the first step of the round that follows: seconds, where the log shows that step."""
    rounds = [at for at, _, _ in run.rounds]
    steps = sorted(run.steps)
    times = []
    for at in moments:
        place = bisect.bisect_left(rounds, at)
        if place == len(rounds):
            continue
        next_step = run.rounds[place][2] + 1
        for when, step in steps[bisect.bisect_left(steps, (at, 0)):]:
            if step == next_step:
                times.append(when - at)
            if step >= next_step:
                break
    return times


def describe(what, times):
    if not times:
        return
    times = sorted(times)
    at = lambda share: times[min(len(times) - 1, int(share * len(times)))]
    print(f"{what}: {len(times)} times, median {at(0.5):.3f} s, 99th percentile {at(0.99):.3f} s, largest {times[-1]:.3f} s")


main()
