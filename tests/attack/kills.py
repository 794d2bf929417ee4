#!/usr/bin/env python3
"""Compares runs in which a process is killed at an aimed moment with the same run undisturbed, in everything that they report.

    tests/attack/kills.py BUILD [--kinds own evaluated ...] [--who chief worker] [--moments 20] [--seed S]

A moment is the N-th write, rename, fsync or send of the process (tests/attack/kill_at.cpp is preloaded). Compared are
the exit code, weights, log lines without times, the metrics file, summaries.jsonl and histograms.jsonl, event files, run.jsonl,
evaluations, exports, checkpoints and the JSON summary. What may differ is in tests/attack/allowed.txt,
each with its reason; everything else ends with exit code 1.
"""
import argparse, collections, json, os, pathlib, random, re, shutil, subprocess, sys, tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--kinds", nargs="+", default=["own", "train", "evaluated", "stopped"])
parser.add_argument("--who", nargs="+", choices=["chief", "worker"], default=["chief"])
parser.add_argument("--moments", type=int, default=5, help="of each kind and process, spread over its life")
parser.add_argument("--last", type=float, default=0, help="share of the moments that lie in the last tenth")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--keep", action="store_true", help="keep the folders of runs that differ")
options = parser.parse_args()
chance = random.Random(options.seed)
folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-kills-"))
HERE = pathlib.Path(__file__).resolve().parent
ALLOWED = [line.split("\t") for line in (HERE / "allowed.txt").read_text().splitlines() if line and line[0] != "#"]
TIMES = ("time", "seconds", "examples_per_sec", "global_step/sec", "examples/sec", "waiting")

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


def command(kind, model_dir):
    program, launcher = KINDS[kind]
    elastic = [] if kind == "servers" else ["--min-workers", "1"]
    return [str(options.build / "troupe"), "run", "--workers", "3", *elastic, "--max-restarts", "9", "--no-progress", *launcher, "--",
            str(options.build / program[0]), *program[1:], "--no-tune-malloc", "--model-dir", str(model_dir),
            "--metrics-file", str(model_dir) + ".metrics"]


def run(kind, model_dir, **variables):
    preload = {"LD_PRELOAD": str(options.build / "tests/process/libkill_at.so")} if variables else {}
    done = subprocess.run(command(kind, model_dir), env=dict(os.environ, **preload, **variables), capture_output=True, text=True,
                          timeout=300)
    return done


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def lines_of(path):
    if not path.exists():
        return []
    records, first = [], None
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


def log_lines(text):
    found = []
    for line in text.splitlines():
        line = re.sub(r"^\[[a-z]+/\d+\] ", "", line).strip()
        line = re.sub(r"^\S+Z [A-Z] ", "", line)
        line = re.sub(r"^(worker|chief)/\d+ ", "", line)
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


def report_of(done, model_dir):
    """By name: what a run has told, each as a list of records."""
    for stream in ("stdout", "stderr"):  # folders of runs, and of exports, which are named by the time
        setattr(done, stream, re.sub(r"/\d{10}\b", "/TIME", getattr(done, stream).replace(str(model_dir), "MODEL")))
    told = {"exit": [str(done.returncode)], "log": log_lines(done.stderr), "metrics": lines_of(pathlib.Path(str(model_dir) + ".metrics"))}
    for place in (model_dir, *sorted(model_dir.glob("eval*"))):
        name = place.name if place != model_dir else "training"
        told[f"{name} summaries"] = lines_of(place / "summaries.jsonl")
        told[f"{name} events"] = events(place)
    told["journal"] = journal(model_dir / "run.jsonl")
    twice = [each for each, count in collections.Counter(told["journal"]).items() if count > 1 and each.startswith("save ")]
    told["saves told twice"] = twice
    told["checkpoints"] = sorted(path.name for path in model_dir.glob("model.ckpt-*"))
    told["exports"] = sorted(str(path.parent.parent.relative_to(model_dir)) for path in model_dir.glob("export/*/[0-9]*/model.pt"))
    summaries = [line.split("] ", 1)[-1] for line in done.stdout.splitlines() if "{" in line]
    there = {"replicas": None, "world_size": None, "epochs": None}  # who is there where the run ends, and what it has seen
    told["summary"] = [json.dumps(without_times({**json.loads(line), **there}), sort_keys=True) for line in summaries]
    return told


def differences(whole, disturbed):
    found = []
    for name in sorted(set(whole) | set(disturbed)):
        one, other = collections.Counter(whole.get(name, [])), collections.Counter(disturbed.get(name, []))
        if name in ("log", "summary"):  # told at least once
            one, other = collections.Counter(set(one)), collections.Counter(set(other))
        for record, sign in [(record, "-") for record in (one - other).elements()] + [(record, "+") for record in (other - one).elements()]:
            if not any(re.search(where, f"{name} {sign}") and re.search(pattern, record) for where, pattern, _ in ALLOWED):
                found.append(f"{name} {sign} {record}")
    return found


def main():
    bad = total = 0
    for kind in options.kinds:
        model_dir = folder / kind
        count = folder / f"{kind}.count"
        done = run(kind, model_dir, KILL_RANK="0", KILL_COUNT=str(count))
        if done.returncode != 0:
            sys.exit(f"the undisturbed run of {kind}: exit code {done.returncode}\n{done.stderr[-3000:]}")
        whole = report_of(done, model_dir)
        calls = int(count.read_text())
        for who in options.who:
            for number in range(options.moments):
                late = number < options.last * options.moments
                low, high = (int(0.9 * calls), calls) if late else (1, calls)
                at = low + int((number + chance.random()) * (high - low) / options.moments)
                place = folder / f"{kind}-{who}-{number}"
                disturbed = run(kind, place, KILL_RANK="0" if who == "chief" else "1", KILL_AT=str(at), KILL_ONCE=str(place) + ".once")
                found = differences(whole, report_of(disturbed, place))
                total += 1
                bad += bool(found)
                if found and options.keep:
                    pathlib.Path(str(place) + ".log").write_text(disturbed.stderr + disturbed.stdout)
                print(f"{'DIFFERS' if found else 'equal':8} {kind}: {who} killed at call {at} of {calls}", flush=True)
                for line in found[:12]:
                    print(f"         {line[:300]}")
                if not (found and options.keep):
                    shutil.rmtree(place, ignore_errors=True)
    print(f"{total} runs, {bad} differ")
    if not options.keep:
        shutil.rmtree(folder)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
