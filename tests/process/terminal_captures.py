#!/usr/bin/env python3
"""Shows trainings in tmux at three widths and pastes what its screen holds into docs/terminal.md and README.md.

    tests/process/terminal_captures.py [BUILD [SCENE...]]      # build/release, all

A place for a capture is a pair of lines in the document, <!-- capture SCENE COLUMNS --> and
<!-- end -->; what stands between them is replaced. Needs tmux; exit code 77 without it.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "terminal.md", ROOT / "README.md"]
ROWS = 14
LIMIT = 120  # seconds, for one capture
TRAIN = "{build}/examples/mnist --epochs 3"
GROUP = "{build}/troupe run --workers 2 -- " + TRAIN
SERVED = ("{build}/troupe run --workers 3 --ps 1 -- " + TRAIN +
          " --max-steps 471 --strategy parameter-server")
# The command, the step to wait for, whether worker/1 is killed then, and what the screen must hold.
SCENES = {
    "alone": (TRAIN, 250, False, r"validation"),
    "two-workers": (GROUP, 250, False, r"validation"),
    "killed-worker": (SERVED, 180, True, r"(worker/1|, 1) lost"),
}


class Screen:
    """A program in a tmux server of its own."""

    started = 0

    def __init__(self, command, columns):
        Screen.started += 1
        self.tmux = ["tmux", "-L", f"captures{os.getpid()}-{Screen.started}", "-f", "/dev/null"]
        self.call("new-session", "-d", "-x", str(columns), "-y", str(ROWS), f"exec {command}")
        self.call("set-option", "-g", "remain-on-exit", "on")

    def call(self, *words):
        return subprocess.run(self.tmux + list(words), check=True, capture_output=True, text=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(self.tmux + ["kill-server"], capture_output=True, check=False)

    def shown(self):
        return self.call("capture-pane", "-p").rstrip("\n")

    def worker(self, rank):
        """The number of the process."""
        launcher = self.call("display-message", "-p", "#{pane_pid}").strip()
        for child in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            if f"TROUPE_RANK={rank}".encode() in variables:
                return int(child)
        raise RuntimeError(f"there is no worker/{rank}")

    def wait(self, is_there):
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            shown = self.shown()
            if is_there(shown):
                return shown
            time.sleep(0.02)
        raise RuntimeError(f"not seen within {LIMIT} s; the screen holds:\n{self.shown()}")


def capture(scene, columns, build):
    command, step, kills, pattern = SCENES[scene]
    with Screen(command.format(build=build), columns) as screen:

        def is_there(shown):
            at = [int(number) for number in re.findall(r"\] (?:step )?(\d+)(?: of |/)\d+", shown)]
            return bool(at) and at[-1] >= step

        if kills:
            screen.wait(is_there)
            os.kill(screen.worker(1), signal.SIGKILL)
            return screen.wait(lambda shown: re.search(pattern, shown))
        return screen.wait(lambda shown: is_there(shown) and re.search(pattern, shown))


def main():
    if shutil.which("tmux") is None:
        print("skipped: there is no tmux; apt-get install tmux", file=sys.stderr)
        return 77
    build = sys.argv[1] if len(sys.argv) > 1 else "build/release"
    os.chdir(ROOT)

    def paste(found):
        scene, columns = found.group(1), int(found.group(2))
        if len(sys.argv) > 2 and scene not in sys.argv[2:]:
            return found.group(0)
        shown = capture(scene, columns, build)
        wide = [line for line in shown.splitlines() if len(line) > columns]
        if wide:
            raise RuntimeError(f"{scene} at {columns} columns: wider than the screen: {wide}")
        print(f"{scene}, {columns} columns: {len(shown.splitlines())} lines", flush=True)
        return f"<!-- capture {scene} {columns} -->\n```\n{shown}\n```\n<!-- end -->"

    for page in PAGES:
        page.write_text(re.sub(r"<!-- capture ([a-z-]+) (\d+) -->\n.*?<!-- end -->", paste, page.read_text(),
                               flags=re.DOTALL))
    return 0


if __name__ == "__main__":
    sys.exit(main())
