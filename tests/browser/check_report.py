#!/usr/bin/env python3
"""Opens a report in Chromium and compares what is drawn there with the run's JSON lines.

    check_report.py REPORT.html RUN_DIR [RUN_DIR2]
    check_report.py --foreign REPORT.html       of a directory of anybody's: nothing is compared, and nothing may run

Points are read out of the SVG: a path's pixels become values by the positions of two ticks of each axis. Exit code: 0 if
all agrees, 1 with the differences on stderr, 77 without a browser. Prints what was compared.
"""
import json
import math
import os
import re
import sys

import chromium

READ = r"""
const charts = [];
for (const svg of document.querySelectorAll("svg[data-chart]")) {
  const ticks = (axis) => [...svg.querySelectorAll(`text[data-axis=${axis}]`)].map((text) => [Number(text.dataset.value), Number(text.dataset.at)]);
  charts.push([svg.dataset.chart, {x: ticks("x"), y: ticks("y"), curves: [...svg.querySelectorAll("path[data-role]")].map((path) =>
    ({role: path.dataset.role, run: Number(path.dataset.run), d: path.getAttribute("d")}))}]);
}
const datasets = (selector) => [...document.querySelectorAll(selector)].map((element) => ({...element.dataset}));
const rows = (name) => [...document.querySelectorAll(`details[data-table="${name}"] > .scroll tr`)]
  .map((row) => ({differs: row.className === "differs", cells: [...row.children].map((cell) => cell.textContent)}));
return {charts, lost: datasets("[data-lost]"), saves: datasets("[data-save]"), validations: datasets("[data-validation]"),
        sessions: datasets("rect[data-task]"), settings: rows("Settings"), parameters: rows("Parameters"), text: document.body.innerText,
        scripts: document.scripts.length, width: document.documentElement.scrollWidth, window: window.innerWidth};
"""

failures = []
compared = []


def check(condition, what):
    if not condition:
        failures.append(what)


def lines_of(path):
    lines = []
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    pass
    except FileNotFoundError:
        pass
    return lines


def points_of(lines, tag):
    """Steps and values, without what a resumed run took again."""
    points = []
    for line in lines:
        if line.get("session_start"):
            points = [point for point in points if point[0] < line["step"]]
        elif isinstance(line.get(tag), (int, float)):
            points.append((line["step"], line[tag]))
    return points


def value_at(ticks, pixel):
    (value_a, at_a), (value_b, at_b) = ticks[0], ticks[-1]
    return value_a + (pixel - at_a) / (at_b - at_a) * (value_b - value_a)


def compare_curve(page, chart, role, run, expected):
    name = "%s, %s of run %d" % (chart, role, run)
    drawn = page["charts"].get(chart)
    curve = [one for one in drawn["curves"] if one["role"] == role and one["run"] == run] if drawn else []
    if not expected:
        check(not curve or not curve[0]["d"], name + " is drawn, and the run has none")
        return
    if len(curve) != 1:
        failures.append(name + " is not drawn")
        return
    pixels = [(float(x), float(y)) for x, y in re.findall(r"[ML]([-\d.]+),([-\d.]+)", curve[0]["d"])]
    points = [(value_at(drawn["x"], x), value_at(drawn["y"], y)) for x, y in pixels]
    if len(points) != len(expected):
        failures.append("%s has %d points, the run %d" % (name, len(points), len(expected)))
        return
    pixel = [abs((ticks[-1][0] - ticks[0][0]) / (ticks[-1][1] - ticks[0][1])) for ticks in (drawn["x"], drawn["y"])]
    for (x, y), (step, value) in zip(points, expected):
        check(abs(x - step) < 0.02 * pixel[0] + 1e-9, "%s: step %r is drawn at %r" % (name, step, x))
        check(abs(y - value) < 0.02 * pixel[1] + 1e-9, "%s: %r is drawn at %r" % (name, value, y))
    compared.append("%s: %d points" % (name, len(points)))


def compare_run(page, directory, run):
    train = lines_of(os.path.join(directory, "summaries.jsonl"))
    evaluations = lines_of(os.path.join(directory, "eval", "summaries.jsonl"))
    tags = {tag for line in train for tag in line}
    for tag in sorted(tags - {"step", "time", "session_start"}):
        chart, role = tag, "training"
        if tag.startswith("train/"):
            chart, role = tag[6:], "training, epochs"
        if tag.startswith("validation/"):
            chart, role = tag[11:], "validation"
        compare_curve(page, chart, role, run, points_of(train, tag))
    for tag in {tag for line in evaluations for tag in line} - {"step", "time", "session_start", "checkpoint_path"}:
        compare_curve(page, tag, "evaluation", run, points_of(evaluations, tag))


def compare_journal(page, directories):
    journals = [lines_of(os.path.join(directory, "run.jsonl")) for directory in directories]
    events = [event for journal in journals for event in journal]
    of = lambda kind: [event for event in events if event["event"] == kind]
    lost = [(event["task"], event["step"], event["reason"]) for event in of("lost")]
    drawn = [(mark["lost"], int(mark["step"]), mark["reason"]) for mark in page["lost"]]
    check(sorted(lost) == sorted(drawn), "lost workers: %r, drawn: %r" % (lost, drawn))
    for task, _, reason in lost:
        check(task + " was lost" in page["text"] and reason in page["text"], "the text does not name the lost " + task)
    saves = sorted(event["step"] for event in of("save"))
    check(sorted(int(mark["save"]) for mark in page["saves"]) == saves, "saves: %r" % saves)
    bars = sorted(task for start in of("start") for task in start["tasks"])
    check(sorted(mark["task"] for mark in page["sessions"]) == bars, "a bar per start and task: %r" % bars)
    for end in [journal[-1] for journal in journals if "waiting" in journal[-1]]:
        shares = ", ".join("%s %d %%" % (task, math.floor(100 * share + 0.5)) for task, share in end["waiting"].items())
        check(shares in page["text"], "who waited: %s is not in the text" % shares)
        compared.append("waiting: " + shares)
    starts = [[event for event in journal if event["event"] == "start"][-1] for journal in journals]
    check(len(starts) > 1 or "training, %ss" % starts[0]["unit"] in page["text"], "a pass over the data has another name")
    settings = [{one["name"]: one["value"] for one in start["settings"]} for start in starts]
    differing = sorted(name for name in settings[0] if settings[0][name] != settings[-1].get(name))
    marked = sorted(row["cells"][0] for row in page["settings"] if row["differs"])
    check(marked == differing, "settings that differ: %r, marked: %r" % (differing, marked))
    names = [parameter["name"] for parameter in starts[0]["parameters"]]
    shown = [row["cells"][0] for row in page["parameters"][1:]]
    check(shown == names, "parameters: %r, shown: %r" % (names, shown))
    compared.append("lost: %r" % [(task, step) for task, step, _ in lost])
    compared.append("saves: %r" % saves)
    compared.append("settings that differ: %r" % differing)


def read(browser):
    page = browser.run(READ)
    page["charts"] = dict(page["charts"])
    return page


def main(report, directories, foreign):
    with chromium.Browser() as browser:
        url = "file://" + os.path.abspath(report)
        browser.open(url)
        page = read(browser)
        check(page["charts"], "no chart is drawn")
        check(page["scripts"] == 2, "%d script elements" % page["scripts"])
        compared.append("charts: %d" % len(page["charts"]))
        for run, directory in enumerate(directories):
            compare_run(page, directory, run)
        if not foreign:
            compare_journal(page, directories)
        browser.run("""
          for (const button of document.querySelectorAll("button")) button.click();  // both axes, log scales, legends
          for (const svg of document.querySelectorAll("svg")) {
            const box = svg.getBoundingClientRect();
            svg.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + 40}));
          }""")
        check(browser.run("return window.pwned === undefined"), "the page ran what its data says")
        browser.resize(420, 900)
        narrow = browser.run(READ)
        check(narrow["width"] <= narrow["window"], "400 px: the page is %(width)d px wide in a window of %(window)d" % narrow)
        elsewhere = [asked for asked in browser.requests() if asked != url and not asked.startswith("data:")]
        check(not elsewhere, "requests left the page: %r" % elsewhere)
        for line in browser.console():
            failures.append("console: " + line)
    for line in compared:
        print(line)
    for line in failures[:20]:
        print(line, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        foreign = sys.argv[1] == "--foreign"
        arguments = sys.argv[2 if foreign else 1:]
        sys.exit(main(arguments[0], arguments[1:], foreign))
    except chromium.Missing as missing:
        print("skipped: this machine has no " + str(missing))
        sys.exit(77)
