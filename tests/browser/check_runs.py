#!/usr/bin/env python3
"""Makes a report of many runs, opens it in Chromium, and compares its table with what the runs wrote.

    check_runs.py TROUPE [PICTURE.png]

The runs are made here: 30 with two settings that differ, and one directory that tells of none. With PICTURE, a picture of
the page is kept. Exit code: 0 if all agrees, 1 with the differences on stderr, 77 without a browser.
"""
import json
import os
import subprocess
import sys
import tempfile

import chromium

RUNS = 30
MOST_DRAWN = 6
READ = r"""
const cells = (row) => [...row.children].slice(1).map((cell) => cell.textContent);
return {heads: cells(document.querySelector(".runs thead tr")), rows: [...document.querySelectorAll(".runs tbody tr")].map(cells),
        ticks: [...document.querySelectorAll(".runs tbody input")].map((box) => [box.checked, box.disabled]),
        curves: document.querySelectorAll("svg[data-chart=loss] path[data-role=validation]").length,
        summaries: document.querySelectorAll("#summary .panel").length, title: document.title,
        tallest: Math.max(...[...document.querySelectorAll(".runs tbody tr")].map((row) => row.offsetHeight)),
        width: document.documentElement.scrollWidth, window: window.innerWidth};
"""
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)


def values_of(run):
    """Validation losses and accuracies by epoch: the better, the larger the rate."""
    rate = 0.001 * (run + 1)
    losses = [2.3 / (1 + 20 * rate * epoch) + (0.02 * (run % 7) if epoch == 5 else 0) for epoch in range(1, 6)]
    return rate, losses, [1 - loss / 2.4 for loss in losses]


def make_run(folder, run):
    rate, losses, accuracies = values_of(run)
    os.mkdir(folder)
    settings = [("learning-rate", "%g" % rate), ("momentum", "0.9" if run % 2 else "0"), ("batch-size", "64"),
                ("model-dir", folder)]
    start = {"event": "start", "time": 1000 + run, "step": 0, "program": "mnist", "mode": "train", "strategy": "mirrored",
             "tasks": ["worker/0"], "settings": [{"name": name, "value": value, "source": "command line"} for name, value in settings],
             "metrics": [{"name": "accuracy", "better": "higher"}], "parameters": []}
    end = {"event": "end", "time": 1060 + 2 * run, "step": 500, "reason": "the data has ended: epochs = 5, step = 500", "exit_code": 0}
    with open(os.path.join(folder, "run.jsonl"), "w") as file:
        for event in (start, end):
            file.write(json.dumps(event) + "\n")
    with open(os.path.join(folder, "summaries.jsonl"), "w") as file:
        for epoch, (loss, accuracy) in enumerate(zip(losses, accuracies), 1):
            file.write(json.dumps({"step": 100 * epoch, "time": 1000 + run + 10 * epoch, "validation/loss": loss,
                                   "validation/accuracy": accuracy}) + "\n")


def column(page, head):
    at = page["heads"].index(head)
    return [row[at] for row in page["rows"]]


def sort_by(browser, head, times=1):
    for _ in range(times):
        browser.run("[...document.querySelectorAll('.runs th button')].find((one) => one.textContent === %s).click()" % json.dumps(head))
    return browser.run(READ)


def look(browser, names):
    page = browser.run(READ)
    expected = ["run", "learning-rate", "momentum", "best loss, validation", "last loss, validation", "best accuracy, validation",
                "last accuracy, validation", "step", "time", "ended"]
    check(page["heads"] == expected, "heads: %r" % page["heads"])
    check(page["title"].startswith("%d runs" % RUNS), "title: %r" % page["title"])
    names = [os.path.basename(name) for name in names]
    check(column(page, "run") == names, "runs: %r" % column(page, "run"))
    for run, row in enumerate(page["rows"]):
        rate, losses, accuracies = values_of(run)
        shown = [float(value) for value in row[1:7]]
        wanted = [rate, 0.9 if run % 2 else 0, min(losses), losses[-1], max(accuracies), accuracies[-1]]
        check(all(abs(a - b) < 1e-3 * max(1, abs(b)) for a, b in zip(shown, wanted)), "run %d: %r, not %r" % (run, shown, wanted))
    check([tick for tick, _ in page["ticks"]] == [True] * MOST_DRAWN + [False] * (RUNS - MOST_DRAWN), "ticks: %r" % page["ticks"])
    check(all(disabled for _, disabled in page["ticks"][MOST_DRAWN:]), "a seventh could be drawn")
    check(page["curves"] == MOST_DRAWN == page["summaries"], "%(curves)d curves, %(summaries)d summaries" % page)

    best = "best accuracy, validation"
    down = [float(value) for value in column(sort_by(browser, best, 2), best)]
    check(down == sorted(down, reverse=True), "sorted down: %r" % down)
    up = [float(value) for value in column(sort_by(browser, best), best)]
    check(up == sorted(up), "sorted up: %r" % up)
    page = sort_by(browser, "run")
    check(column(page, "run") == names, "by name: %r" % column(page, "run"))  # run2 before run10
    browser.run("document.querySelectorAll('.runs tbody input')[0].click()")
    page = browser.run(READ)
    check(page["curves"] == MOST_DRAWN - 1 and not any(disabled for _, disabled in page["ticks"]), "five of six are drawn")
    browser.run("document.querySelectorAll('.runs tbody input')[29].click()")
    check(browser.run(READ)["curves"] == MOST_DRAWN, "the last is drawn instead of the first")


def main(troupe, picture):
    with tempfile.TemporaryDirectory() as folder, chromium.Browser() as browser:
        names = [os.path.join(folder, "run%d" % run) for run in range(RUNS)]
        for run, name in enumerate(names):
            make_run(name, run)
        os.mkdir(os.path.join(folder, "notes"))
        made = subprocess.run([troupe, "report", *names, os.path.join(folder, "notes")], capture_output=True, text=True)
        check(made.returncode == 0, made.stderr)
        check("left out" in made.stderr and "notes" in made.stderr, "the directory without a run is not named: " + made.stderr)
        page = os.path.join(folder, "report.html")
        check(made.stdout == page + "\n", made.stdout)
        browser.resize(1280, 1000)
        browser.open("file://" + page)
        look(browser, names)
        for width in (1280, 420):
            browser.resize(width, 900)
            sizes = browser.run(READ)
            check(sizes["width"] <= sizes["window"], "%d px: the page is %d px wide" % (width, sizes["width"]))
            check(sizes["tallest"] < 40, "%d px: a row is %d px tall, as if of several lines" % (width, sizes["tallest"]))
            if picture and width == 1280:
                with open(picture, "wb") as file:
                    file.write(browser.screenshot())
        failures.extend("console: " + line for line in browser.console())
    for line in failures[:20]:
        print(line, file=sys.stderr)
    print("%d runs: table, order and choice are as written" % RUNS)
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
    except chromium.Missing as missing:
        print("skipped: this machine has no " + str(missing))
        sys.exit(77)
