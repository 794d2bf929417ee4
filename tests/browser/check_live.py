#!/usr/bin/env python3
"""Opens the live page of a training in Chromium, sees points come while it trains, and compares all in the end.

    check_live.py RUN_DIR COMMAND...      COMMAND trains with --model-dir RUN_DIR --status 0

Exit code: 0 if all agrees, 1 with the differences on stderr, 77 without a browser. Prints what was compared.
"""
import re
import subprocess
import sys
import threading
import time

import check_report
import chromium

LIMIT = 60  # seconds, of each wait
STATE = """
const words = document.getElementById("state").textContent;
const path = document.querySelector('svg[data-chart="loss"] path[data-role="training"]');
const points = path ? (path.getAttribute("d") || "").split(/[ML]/).length - 1 : 0;
return [document.body.dataset.live || "", words, points];
"""


def wait_for(what, look):
    end = time.monotonic() + LIMIT
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            check_report.failures.append("did not come within %d s: %s" % (LIMIT, what))
            return None
        time.sleep(0.02)


def url_of(training):
    for line in training.stderr:
        found = re.search(r"live page: (http://\S+)", line)
        if found:
            # What follows must not fill the pipe.
            threading.Thread(target=training.stderr.read, daemon=True).start()
            return found.group(1)
    return None


def watch(browser, url):
    """What the page says while it is connected: its words, and how many points it has drawn."""
    browser.open(url)
    seen = []

    def ended():
        live, words, points = browser.run(STATE)
        if live == "live":
            seen.append((words, points))
        return live == "ended"

    wait_for("the end", ended)
    counts = sorted({points for _, points in seen})
    check_report.check(len(counts) >= 3, "while it trained, the page had %r points" % counts)
    spoken = {words for words, _ in seen if re.match(r"training .* step [\d,]+ of [\d,]+", words)}
    check_report.check(len(spoken) >= 2, "progress that the page told: %r" % sorted(spoken))
    words = browser.run(STATE)[1]
    check_report.check("ended" in words, "in the end the page says %r" % words)
    check_report.compared.append("while it trained: %d times other points, from %d to %d" % (len(counts), counts[0], counts[-1]))
    check_report.compared.append("told: %d times, such as %r" % (len(spoken), min(spoken, default="")))


def main(directory, command):
    with chromium.Browser() as browser:
        training = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            url = url_of(training)
            if not url:
                print("the training printed no address", file=sys.stderr)
                return 1
            watch(browser, url)
            code = training.wait(LIMIT)
            check_report.check(code == 0, "the training ended with %d" % code)
        finally:
            training.kill()
            training.wait()
        expected = len(check_report.points_of(check_report.lines_of(directory + "/summaries.jsonl"), "loss"))
        wait_for("all points", lambda: browser.run(STATE)[2] == expected)
        check_report.compare_run(check_report.read(browser), directory, 0)
        origin = re.match(r"http://[^/]+/", url).group(0)
        elsewhere = [asked for asked in browser.requests() if not asked.startswith((origin, "data:"))]
        check_report.check(not elsewhere, "requests left the page: %r" % elsewhere)
        for line in browser.console():
            check_report.failures.append("console: " + line)
    for line in check_report.compared:
        print(line)
    for line in check_report.failures[:20]:
        print(line, file=sys.stderr)
    return 1 if check_report.failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except chromium.Missing as missing:
        print("skipped: this machine has no " + str(missing))
        sys.exit(77)
