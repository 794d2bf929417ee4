#!/usr/bin/env python3
"""What an elastic group costs while nobody is lost: `troupe run` with and without --min-workers.

    bench/elastic.py --build build/release [--pairs N] [--json FILE]

1. System calls and bytes that a step sends, by strace, as the difference of a longer and a shorter run.
2. Samples per second, in pairs that take turns at being first: ratio with a 95 % interval.
"""
import argparse, json, math, os, re, statistics, subprocess, sys, tempfile

options = argparse.ArgumentParser()
options.add_argument("--build", required=True)
options.add_argument("--pairs", type=int, default=40)
options.add_argument("--steps", type=int, default=1200)
options.add_argument("--json")
asked = options.parse_args()
PER_STEP = ("sendto", "sendmsg", "recvfrom", "recvmsg", "writev", "readv")


def command(elastic, steps, transport="auto"):
    run = [f"{asked.build}/troupe", "run", "--workers", "2", "--threads", "1", "--no-prefix"]
    return run + (["--min-workers", "1"] if elastic else []) + [
        "--", f"{asked.build}/examples/mnist", "--data-dir", "synthetic", "--train-examples", "2000", "--threads", "1",
        "--virtual-replicas", "2", "--max-steps", str(steps), "--log-every", "0", "--transport", transport]


def calls(elastic, steps):
    """Of all processes, by name: number of calls, and bytes that the calls returned."""
    with tempfile.NamedTemporaryFile("r") as trace:
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=" + ",".join(PER_STEP), "-o", trace.name,
                        *command(elastic, steps, "tcp")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        number, size = {}, {}
        for line in trace:
            found = re.match(r"\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed).* = (-?\d+)", line)
            if not found or int(found.group(2)) < 0:
                continue
            name = found.group(1)
            number[name] = number.get(name, 0) + 1
            size[name] = size.get(name, 0) + int(found.group(2))
        return number, size


def rate(elastic):
    done = subprocess.run(command(elastic, asked.steps), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    return float(re.search(r"(\d+) examples/sec\)", done.stderr).group(1))


result = {"calls": {}, "rates": []}
print("per step, two workers over TCP:")
for elastic in (False, True):
    short, long = calls(elastic, 100), calls(elastic, 300)
    own = {name: [round((long[i].get(name, 0) - short[i].get(name, 0)) / 200, 2) for i in (0, 1)]
           for name in PER_STEP if long[0].get(name, 0) > 100}
    result["calls"]["elastic" if elastic else "plain"] = own
    print("  elastic:" if elastic else "  plain:  ", ", ".join(f"{name} {n} calls, {b} bytes" for name, (n, b) in own.items()))
for pair in range(asked.pairs):
    order = (False, True) if pair % 2 == 0 else (True, False)
    both = {elastic: rate(elastic) for elastic in order}
    result["rates"].append([both[False], both[True]])
if asked.pairs > 1:
    logs = [math.log(elastic / plain) for plain, elastic in result["rates"]]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(mean + k * 1.96 * error) for k in (-1, 0, 1))
    print(f"elastic / plain samples per second: {middle:.4f} [{low:.4f}, {high:.4f}] of {asked.pairs} pairs, medians "
          f"{statistics.median(r[0] for r in result['rates']):.0f} and {statistics.median(r[1] for r in result['rates']):.0f}")
if asked.json:
    with open(asked.json, "w") as file:
        json.dump(result, file, indent=1)
