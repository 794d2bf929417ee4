#!/usr/bin/env python3
"""Compares runs in which a process is killed at an aimed moment with the same run undisturbed, in everything that they report.

    tests/attack/kills.py BUILD [--kinds own evaluated ...] [--who chief launcher ...] [--moments 20] [--seed S] [--jobs J]
    tests/attack/kills.py --planted [NAME ...] [--moments 5]      build/planted: a copy of the tree, and its build; minutes

A moment is the N-th write, rename, fsync or send of the process (tests/attack/kill_at.cpp is preloaded). Those of `telling` are
the chief's writes of a line with a step, those of `after` the chief's from the line on that training has ended. An elastic group ends by itself, whichever worker is killed. After a
kill of the launcher, or where servers cannot go on, the same command runs again until it ends with 0, and of
what all starts report the last of each key counts. Compared are the exit code, the weights and the optimiser's state, log lines
without times, the metrics file, summaries.jsonl and histograms.jsonl, event files, run.jsonl, evaluations, exports, checkpoints
and the JSON summary; no process may be left. What may differ is in tests/attack/allowed.txt, each with its reason; everything
else ends with exit code 1.

With --planted each bug of tests/attack/planted.toml is put into a copy of the tree, and has to be found.
"""
import argparse, collections, concurrent.futures, json, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, time

WHO = {"chief": "worker:0", "telling": "worker:0", "after": "worker:0", "worker": "worker:1", "launcher": "launcher", "server": "ps:0"}
HERE = pathlib.Path(__file__).resolve().parent
ALLOWED = [line.split("\t") for line in (HERE / "allowed.txt").read_text().splitlines() if line and line[0] != "#"]
TIMES = ("time", "seconds", "examples_per_sec", "global_step/sec", "examples/sec", "waiting")
STARTS = 4  # of a command that is to end with 0
SECONDS = 200  # each of them
AIMS = {"telling": "KILL_OF", "after": "KILL_AFTER"}  # in place of all calls
TEXTS = {"KILL_OF": "step", "KILL_AFTER": "training ends at step"}

MNIST = ["examples/mnist", "--virtual-replicas", "4", "--train-examples", "320", "--batch-size", "16", "--threads", "1",
         "--epochs", "3", "--save-every", "7", "--save-summary-steps", "10", "--log-every", "10", "--json-summary"]
KINDS = {  # program, arguments, launcher's arguments
    "own": (["tests/process/trainings", "virtual_net", "--virtual-replicas", "8", "--batch-size", "40", "--threads", "1",
             "--epochs", "3", "--save-every", "7", "--save-summary-steps", "10", "--log-every", "10", "--json-summary"], []),
    "train": (MNIST, []),
    "evaluated": (MNIST + ["--mode", "train_and_evaluate", "--throttle-secs", "0", "--exporter", "latest"], []),
    "stopped": (MNIST + ["--mode", "train_and_evaluate", "--throttle-secs", "0", "--exporter", "best",
                         "--early-stopping", "accuracy:14"], []),
    "evaluator": (MNIST + ["--mode", "train_and_evaluate", "--throttle-secs", "0", "--start-delay-secs", "0"], ["--evaluator"]),
    "servers": ([word for word in MNIST if word not in ("--virtual-replicas", "4")] + ["--strategy", "parameter-server",
                "--staleness-bound", "0"], ["--ps", "1"]),
}


def command(build, kind, model_dir):
    program, launcher = KINDS[kind]
    elastic = [] if kind == "servers" else ["--min-workers", "1", "--max-restarts", "9"]
    return [str(build / "troupe"), "run", "--workers", "3", *elastic, "--no-progress", *launcher, "--",
            str(build / program[0]), *program[1:], "--no-tune-malloc", "--model-dir", str(model_dir),
            "--metrics-file", str(model_dir) + ".metrics"]


def processes_of(model_dir):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(str(model_dir)) in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
        except OSError:  # it has ended
            pass
    return found


def left_over(model_dir):
    """Those that a run has left behind: they have the time that their launcher's guard needs."""
    end = time.monotonic() + 20
    while (found := processes_of(model_dir)) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return [f"process {pid}" for pid in found]


class Run:
    """A command, which is started again where `again` says so."""

    def __init__(self, build, kind, model_dir, again=False, **variables):
        self.stdout = self.stderr = ""
        self.codes, self.left = [], []
        environment = dict(os.environ, LD_PRELOAD=str(build / "tests/process/libkill_at.so"), **variables)
        while not self.codes or (again and self.codes[-1] != 0 and len(self.codes) < STARTS):
            started = subprocess.Popen(command(build, kind, model_dir), env=environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            try:
                out, err = started.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                started.kill()
                out, err = started.communicate()
                err += f"\nstopped after {SECONDS} s"
            self.stdout, self.stderr = self.stdout + out, self.stderr + err
            self.codes.append(started.returncode)
            self.left += left_over(model_dir)


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def lines_of(path):
    if not path.exists():
        return []
    records = []
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if line.get("session_start"):
            records = [each for each in records if each["step"] < line["step"]]
            continue
        if path.name == "summaries.jsonl" and set(line) <= {"step", "time", "global_step/sec", "examples/sec"}:
            line = {"step": line["step"], "speed": True}
        if "checkpoint_path" in line:
            line["checkpoint_path"] = pathlib.Path(line["checkpoint_path"]).name
        records.append(without_times(line))
    return [json.dumps(each, sort_keys=True) for each in records]


def last_of_each_key(records):
    """Of the metrics file, where a step that is taken again is told again."""
    return list({(line["step"], *sorted(line)): record for record in records for line in [json.loads(record)]}.values())


def log_lines(text):
    found = []
    for line in text.splitlines():
        line = re.sub(r"^\[[a-z]+/\d+\] ", "", line).strip()
        line = re.sub(r"^\S+Z [A-Z] ", "", line)
        line = re.sub(r"^(worker|chief|ps|evaluator)/\d+ ", "", line)
        line = re.sub(r" \(again\)$|;? waiting for the slowest worker: .*|, equal on \d+ replicas?", "", line)
        line = re.sub(r"[\d.]+ (sec|ms|s)\b|examples/sec(: \d+)?|global_step/sec: [\d.]+|\([^()]*examples in [^()]*\)", "", line)
        found.append(line.strip())
    return found


def journal(path):
    kept = []
    for line in lines_of(path):
        event = json.loads(line)
        kept.append(" ".join(str(event.get(key, "")) for key in ("event", "step", "task", "checkpoint")))
    return kept


def events(path):
    found = []
    for file in sorted(path.glob("events.out.tfevents.*")):
        shown = subprocess.run([sys.executable, "-B", str(HERE.parent / "interop/read_events.py"), str(file)], capture_output=True, text=True)
        for line in shown.stdout.splitlines():
            kind, *rest = line.split(" ", 3)
            if kind == "session_start":
                found = [each for each in found if each[0] < int(rest[0])]
            elif kind != "version":
                step, tag = int(rest[0]), rest[1]
                rest = [word.replace(str(path.parent if path.name.startswith("eval") else path), "") for word in rest]
                found.append((step, f"{kind} {step} {tag}" + ("" if tag in TIMES else " " + " ".join(rest[2:]))))
    return [record for _, record in found]


def newest_checkpoint(model_dir):
    """The digests of its tensors."""
    newest = max(model_dir.glob("model.ckpt-*/manifest.json"), key=lambda path: int(path.parent.name.rpartition("-")[2]), default=None)
    if newest is None:
        return []
    return [f"{newest.parent.name} {name} {file['sha256']}" for name, file in json.loads(newest.read_text())["files"].items()]


def report_of(done, model_dir):
    """By name: what a run has told, each as a list of records."""
    for stream in ("stdout", "stderr"):  # folders of runs, and of exports, which are named by the time
        setattr(done, stream, re.sub(r"/\d{10}\b", "/TIME", getattr(done, stream).replace(str(model_dir), "MODEL")))
    told = {"exit": [str(done.codes[-1])], "log": log_lines(done.stderr), "processes left": done.left}
    told["metrics"] = lines_of(pathlib.Path(str(model_dir) + ".metrics"))
    for place in (model_dir, *sorted(model_dir.glob("eval*"))):
        name = place.name if place != model_dir else "training"
        told[f"{name} summaries"] = lines_of(place / "summaries.jsonl")
        told[f"{name} events"] = events(place)
    told["journal"] = journal(model_dir / "run.jsonl")
    told["weights"] = newest_checkpoint(model_dir)
    told["checkpoints"] = sorted(path.name for path in model_dir.glob("model.ckpt-*"))
    told["exports"] = sorted(str(path.parent.parent.relative_to(model_dir)) for path in model_dir.glob("export/*/[0-9]*/model.pt"))
    told["summary"] = last_summaries(done.stdout)
    if len(done.codes) > 1:  # steps were taken again, and told again
        told["metrics"] = last_of_each_key(told["metrics"])
        told["journal"] = list(dict.fromkeys(told["journal"]))
    twice = collections.Counter(told["journal"])
    told["saves told twice"] = [each for each, count in twice.items() if count > 1 and each.startswith("save ")]
    return told


def last_summaries(text):
    """Of each kind of line the last one counts. Not who was there in the end, and what it had seen."""
    lines = [json.loads(line.split("] ", 1)[-1]) for line in text.splitlines() if "{" in line]
    last = {next(iter(line)): without_times(line) for line in lines}
    return [f"{kind}: {key} {json.dumps(value, sort_keys=True)}" for kind, line in last.items() for key, value in line.items()
            if key not in ("replicas", "world_size", "epochs")]


def last_evaluation(told):
    """An evaluator takes what is the newest checkpoint where it looks: only the last evaluation is the same in each run."""
    for name in [name for name in told if name.startswith("eval")]:
        step_of = lambda record: json.loads(record)["step"] if record[0] == "{" else int(record.split()[1])
        last = max(map(step_of, told[name]), default=0)
        told[name] = [record for record in told[name] if step_of(record) == last]
    told["exports"] = sorted(set(told["exports"]))


def without_values(told):
    """Servers go on with fewer gradients where a worker is lost: the same records, with other numbers in them."""
    number = re.compile(r"""((?:\bstep"?(?: =|:)?|"epoch":|^scalar|^text) \d+|ckpt-\d+)|[0-9a-f]{64}|-?\d[\d.e+-]*""")
    for name in told.keys() - {"exit", "journal", "checkpoints"}:
        told[name] = [number.sub(lambda match: match[1] or "#", record) for record in told[name]]


def differences(kind, who, whole, disturbed):
    whole, disturbed, found = dict(whole), dict(disturbed), []
    for told in (whole, disturbed):
        if kind == "evaluator":
            last_evaluation(told)
        if kind == "servers" and who == "worker":
            without_values(told)
    for name in sorted(set(whole) | set(disturbed)):
        one, other = collections.Counter(whole.get(name, [])), collections.Counter(disturbed.get(name, []))
        if name == "log":  # told at least once
            one, other = collections.Counter(set(one)), collections.Counter(set(other))
        for record, sign in [(record, "-") for record in (one - other).elements()] + [(record, "+") for record in (other - one).elements()]:
            if not any(re.search(place, f"{kind} {who}: {name} {sign}") and re.search(pattern, record) for place, pattern, _ in ALLOWED):
                found.append(f"{name} {sign} {record}")
    return found


class Undisturbed:
    """A kind's run, and how many calls each of its processes makes."""

    def __init__(self, build, kind, folder):
        self.kind, self.calls, model_dir = kind, {}, folder / kind
        done = Run(build, kind, model_dir, KILL_COUNT=f"{model_dir}.count", **TEXTS)
        if done.codes != [0]:
            sys.exit(f"the undisturbed run of {kind}: exit code {done.codes[0]}\n{done.stderr[-3000:]}")
        self.told = report_of(done, model_dir)
        for who, task in WHO.items():
            count = pathlib.Path(f"{model_dir}.count.{task}")
            if count.exists():
                self.calls[who] = int(count.read_text().split()[["", "KILL_AFTER", "KILL_OF"].index(AIMS.get(who, ""))])


def disturb(build, whole, who, at, place):
    """Kills `who` at its call `at`: what differs from the undisturbed run, the exit codes, and whether it came as far."""
    kind, once = whole.kind, pathlib.Path(f"{place}.once")
    again = who in ("launcher", "server") or kind == "servers"
    aim = {AIMS[who]: TEXTS[AIMS[who]]} if who in AIMS else {}
    done = Run(build, kind, place, again, KILL_TASK=WHO[who], KILL_AT=str(at), KILL_ONCE=str(once), **aim)
    found = differences(kind, who, whole.told, report_of(done, place))
    if found:
        pathlib.Path(f"{place}.log").write_text(done.stderr + done.stdout)
    return found, done.codes, once.exists()


def compare(build, options):
    """How many runs differ."""
    chance = random.Random(options.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-kills-"))
    bad, killed = 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        wholes = pool.map(lambda kind: Undisturbed(build, kind, folder), options.kinds)
        wanted = [(whole, who, 1 + int((number + chance.random()) * whole.calls[who] / options.moments), number)
                  for whole in wholes for who in options.who if who in whole.calls for number in range(options.moments)]
        places = [folder / f"{whole.kind}-{who}-{number}" for whole, who, _, number in wanted]
        found_by = pool.map(lambda each, place: disturb(build, *each[:3], place), wanted, places)
        for (whole, who, at, _), place, (found, codes, is_killed) in zip(wanted, places, found_by):
            killed[who] += is_killed
            bad += bool(found)
            print(f"{'DIFFERS' if found else 'equal':8} {whole.kind}: {who} {'killed' if is_killed else 'ended before'} at call {at}"
                  f" of {whole.calls[who]}{'; the exit codes: ' + str(codes) if len(codes) > 1 else ''}", flush=True)
            for line in found[:12]:
                print(f"         {line[:300]}", flush=True)
            if not (found and options.keep):
                shutil.rmtree(place, ignore_errors=True)
    print(f"{killed.total()} kills, {', '.join(f'{count} {who}' for who, count in killed.items())}: {bad} differ"
          + (f"; {folder}" if options.keep else ""), flush=True)
    if not options.keep:
        shutil.rmtree(folder)
    return bad


def find_planted(names, options):
    """How many planted bugs no kill shows."""
    sys.path.insert(0, str(HERE.parent / "twins"))
    import edits, run
    bugs = [bug for bug in edits.entries(HERE / "planted.toml") if not names or bug["name"] in names]
    copy = run.Copy(run.ROOT / "build" / "planted", os.cpu_count(), ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"])
    copy.refresh()
    copy.configure()
    missed = 0
    for bug in bugs:
        sound = edits.sources(copy.tree)
        files = edits.edited(bug, sound)
        try:
            copy.write(files)
            if trouble := copy.compile({"troupe_tool", "mnist", "trainings", "kill_at"}):
                sys.exit(f"{bug['name']} does not compile. Fix its edits in planted.toml:\n{trouble}")
            options.kinds, options.who = bug["kinds"], bug["who"]
            found = compare(copy.build, options)
        finally:
            copy.write({name: sound[name] for name in files})
        missed += not found
        print(f"{'found' if found else 'MISSED'}: {bug['name']}", flush=True)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("--planted", nargs="*", metavar="NAME", help="find these bugs, or all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--who", nargs="+", choices=WHO, default=list(WHO))
    parser.add_argument("--moments", type=int, default=1, help="of each kind and process, spread over its life")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--keep", action="store_true", help="keep the folders of runs that differ")
    options = parser.parse_args()
    if options.planted is not None:
        sys.exit(1 if find_planted(options.planted, options) else 0)
    if options.build is None:
        parser.error("which build?")
    sys.exit(1 if compare(options.build, options) else 0)


if __name__ == "__main__":
    main()
