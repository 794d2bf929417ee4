// The page: reads the embedded lines, or listens to them, and draws.

const kTitles = new Map([["learning_rate", ["Learning rate", ""]], ["gradient_norm", ["Gradient norm", "before clipping"]],
                         ["examples/sec", ["Examples per second", "all workers"]], ["global_step/sec", ["Steps per second", ""]]]);
const kRoleColors = {"training": "var(--c0)", "training, epochs": "var(--c3)", "validation": "var(--c1)", "evaluation": "var(--c2)"};
const kDashes = {"training, epochs": "7 4", "validation": "2 4", "evaluation": "9 4 2 4"};

class Page {
  constructor(runs) {
    this.table = runs.length > 2 ? new RunsTable(runs, (chosen) => { this.runs = chosen; this.draw(); }) : null;
    this.runs = this.table ? [...this.table.chosen] : runs;
    this.axis = "step";
    this.charts = new Map();  // by group: {chart, kept}
    this.lanes = [];          // by the run's place
    this.buttons = ["step", "time"].map((axis) => html("button", {type: "button", click: () => { this.axis = axis; this.draw(); }}, axis));
    document.getElementById("controls").append("horizontal axis", ...this.buttons);
    this.width = 0;
    new ResizeObserver(() => {
      if (document.body.clientWidth !== this.width) this.draw();
    }).observe(document.body);
  }

  draw() {
    this.width = document.body.clientWidth;
    const title = this.table ? `${this.table.runs.length} runs` : this.runs.map((run) => run.name).filter(Boolean).join("  and  ");
    document.title = title ? `${title} \u2013 Troupe` : "Troupe";
    document.getElementById("heading").textContent = title || "Troupe";
    this.buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === this.axis)));
    document.getElementById("runs").replaceChildren(...(this.table ? [this.table.draw()] : []));
    document.getElementById("summary").replaceChildren(...this.runs.map((run, index) => this.summary(run, index)));
    this.drawCharts();
    this.drawLanes();
    this.drawTables();
  }

  /** The name of a run with its colour, where there are two. */
  nameOf(run, index) {
    if (this.runs.length === 1) return [];
    const dot = html("span", {class: "dot"});
    dot.style.setProperty("--dot", `var(--c${index})`);
    return [dot, run.name];
  }

  summary(run, index) {
    const start = run.start, clock = run.clock(), last = run.last;
    const fact = (name, value, wide) => html("div", {class: wide ? "wide" : null}, html("dt", {}, name), html("dd", {}, value));
    const curves = run.curves();
    const latest = (group, role) => (curves.get(group) && curves.get(group).get(role) || []).filter(({value}) => isNumber(value)).slice(-1)[0];
    const total = isNumber(start.total_steps) ? ` of ${showCount(start.total_steps)}` : "";
    const facts = [fact("step", showCount(run.lastStep()) + total)];
    for (const group of curves.keys()) {
      if (kTitles.has(group)) continue;
      const roles = ["validation", ...[...curves.get(group).keys()].filter((role) => role.startsWith("evaluation"))].filter((role) => latest(group, role));
      for (const role of roles.length ? roles : ["training"]) {
        if (latest(group, role)) facts.push(fact(`${group}, ${role}`, showNumber(latest(group, role).value)));
      }
    }
    const speed = curves.get("examples/sec");
    if (speed) facts.push(fact("examples/s, median", showNumber(Number(median([...speed.values()].flat()).toPrecision(3)))));
    facts.push(fact("time", showDuration(clock.total)));
    if (asList(start.tasks).length) facts.push(fact("workers", showCount(asList(start.tasks).length)));
    if (run.sessions.length > 1) facts.push(fact("starts", showCount(run.sessions.length)));
    const program = [asText(start.program), asText(start.mode), asText(start.strategy)].filter(Boolean).join(", ");
    if (program) facts.push(fact("program, mode, strategy", program, true));
    const panel = html("div", {class: "panel"}, this.runs.length > 1 ? html("h2", {}, ...this.nameOf(run, index)) : null, html("dl", {class: "facts"}, ...facts));
    if (last && last.end) {
      facts[0].parentNode.append(fact("ended", `${showTime(last.end.time)}: ${asText(last.end.reason)}`, true));
      const waiting = Object.entries(asObject(last.end.waiting)).filter(([, share]) => isNumber(share));
      if (waiting.length) facts[0].parentNode.append(fact("waiting for the slowest worker", showShares(waiting), true));
      if (last.end.exit_code !== 0) panel.append(html("p", {class: "notice"}, `exit code ${asText(last.end.exit_code)}`));
    } else if (last) {
      facts[0].parentNode.append(fact("last sign of life", `${showTime(clock.spans[clock.spans.length - 1].end)}; no end was written: it runs, or was killed`, true));
    }
    for (const {start: begun, lost} of run.sessions) {
      for (const event of lost) {
        const time = showTime(run.lostAt(event, begun.time));
        panel.append(html("p", {class: "notice"}, `${asText(event.task)} was lost after step ${showCount(event.step)}, ${time}: ${asText(event.reason)}`));
      }
    }
    if (!last) panel.append(html("p", {class: "empty"}, "No run.jsonl: workers, settings and parameters are not known. Versions before 0.1 wrote none."));
    return panel;
  }

  drawCharts() {
    const groups = new Map();  // by group: the curves of all runs
    const clocks = this.runs.map((run) => run.clock());
    this.runs.forEach((run, index) => {
      for (const [group, roles] of run.curves()) {
        if (!groups.has(group)) groups.set(group, []);
        for (const [role, points] of roles) groups.get(group).push(this.curve(role, points, index, clocks[index]));
      }
    });
    const names = [...groups.keys()].filter((name) => !kTitles.has(name)).concat([...kTitles.keys()].filter((name) => groups.has(name)));
    const box = document.getElementById("charts");
    const panels = names.map((name) => {
      if (!this.charts.has(name)) this.charts.set(name, new Chart({hidden: new Set(), log: false}));
      return this.charts.get(name).panel;
    });
    if (panels.length !== box.children.length || panels.some((panel, index) => panel !== box.children[index])) box.replaceChildren(...panels);
    for (const name of names) this.charts.get(name).draw(this.spec(name, groups.get(name), clocks));
  }

  curve(role, points, index, clock) {
    const several = this.runs.length > 1;
    const byTime = this.axis === "time";
    const shown = role.replace("epochs", `${asText(this.runs[index].start.unit) || "epoch"}s`);
    return {role, run: index, label: several ? `${this.runs[index].name}: ${shown}` : shown,
            color: several ? `var(--c${index})` : kRoleColors[role] || "var(--c4)", dash: several && role !== "training" ? kDashes[role] || "4 3" : null,
            spots: role !== "training",
            points: points.map(({step, time, value}) => ({x: byTime ? clock.at(time) : step, y: value, step}))};
  }

  spec(name, curves, clocks) {
    const byTime = this.axis === "time";
    const [title, unit] = kTitles.get(name) || [name, ""];
    const marks = this.runs.flatMap((run, index) => run.sessions.flatMap(({start, lost}) => lost.map((event) =>
      ({x: byTime ? clocks[index].at(run.lostAt(event, start.time)) : event.step, label: `${asText(event.task)} was lost`}))));
    return {key: name, title, unit, curves, marks, xTitle: byTime ? "time" : "step", fromZero: name.endsWith("/sec"),
            ticksX: byTime ? durationTicks : (low, high, most) => ticksBetween(low, high, most, true),
            showX: byTime ? showDuration : (value, whole) => (whole ? showCount(value) : showTick(value))};
  }

  drawLanes() {
    const box = document.getElementById("lanes");
    while (this.lanes.length < this.runs.length) this.lanes.push(new Lanes());
    const panels = this.lanes.map((lanes) => lanes.panel);
    if (panels.some((panel) => panel.parentNode !== box) || panels.length !== box.children.length) box.replaceChildren(...panels);
    this.runs.forEach((run, index) => this.lanes[index].draw(run, ["Workers", ...(this.runs.length > 1 ? [" of ", ...this.nameOf(run, index)] : [])]));
  }

  drawTables() {
    const box = document.getElementById("tables");
    const open = new Map([...box.querySelectorAll("details")].map((details) => [details.dataset.table, details.open]));
    const tables = [settingsTable, savedTable, eventsTable, parametersTable, machineTable].map((make) => make(this.runs));
    box.replaceChildren(...tables.filter(Boolean));
    for (const details of box.querySelectorAll("details")) {
      if (open.has(details.dataset.table)) details.open = open.get(details.dataset.table);
    }
  }
}

function median(points) {
  const values = points.map(({value}) => value).filter(isNumber).sort((a, b) => a - b);
  return values.length ? values[Math.floor(values.length / 2)] : NaN;
}

/** Draws at most twice a second, however fast lines come. */
function listen(page) {
  const state = document.getElementById("state");
  let waiting = false;
  const draw = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; page.draw(); }, 500);
  };
  const say = (words, kind) => {
    state.hidden = false;
    state.textContent = words;
    document.body.dataset.live = kind;
  };
  say("connecting", "connecting");
  const events = new EventSource("events" + location.search);
  events.onopen = () => {
    page.runs = [new Run("")];  // every connection begins with all lines
    say("live", "live");
  };
  events.onerror = () => say("not connected; trying again", "lost");
  events.onmessage = ({data}) => {
    page.runs[0].add(JSON.parse(data));
    draw();
  };
  events.addEventListener("progress", ({data}) => say(showProgress(JSON.parse(data)), "live"));
  events.addEventListener("end", () => {
    events.close();
    say("training has ended", "ended");
    draw();
  });
}

/** "worker/0 1 %, worker/1 23 %" of [[task, share]]. */
function showShares(shares) {
  return shares.map(([task, share]) => `${asText(task)} ${Math.round(100 * share)} %`).join(", ");
}

function showProgress({activity, step, total_steps, first_step, steps_per_second, examples_per_second, waiting}) {
  const words = [asText(activity), `step ${showCount(step)}${total_steps ? ` of ${showCount(total_steps)}` : ""}`];
  if (examples_per_second > 0) words.push(`${showNumber(Number(examples_per_second.toPrecision(3)))} examples/s`);
  if (steps_per_second > 0 && total_steps > step && step > first_step) words.push(`${showDuration((total_steps - step) / steps_per_second)} left`);
  const shares = asList(waiting).filter((pair) => Array.isArray(pair) && isNumber(pair[1])).sort((a, b) => b[1] - a[1]);
  if (shares.length) words.push(`waiting for the slowest worker: ${showShares(shares.slice(0, 1))}`);
  return words.join(" \u00b7 ");
}

const embedded = JSON.parse(document.getElementById("data").textContent);
const page = new Page(embedded.live ? [new Run("")] : embedded.runs.map(({name, lines}) => {
  const run = new Run(name);
  for (const line of lines) run.add(line);
  return run;
}));
page.draw();
if (embedded.live) listen(page);
