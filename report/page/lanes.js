// A lane per worker: when it took part, what was saved, evaluated and exported, and who was lost. The clock stands still
// between two sessions, so that a run resumed a day later stays readable.

const kLane = 30;

function laneRows(run) {
  const rows = run.tasks().map((task) => ({label: task, task}));
  for (const source of new Set(run.evaluations.map((one) => one.source))) {
    rows.push({label: source === "eval" ? "evaluation" : `evaluation ${source.replace(/^eval_/, "")}`, evaluation: source});
  }
  for (const exporter of new Set(run.exports.map((one) => one.exporter))) rows.push({label: `export ${exporter}`, exporter});
  return rows;
}

/** When a task's part in a session ended: with the session, or when it was lost. */
function endOf(run, session, span, task) {
  const lost = session.lost.find((event) => event.task === task);
  const joined = lost && session.joined.find((event) => event.task === task && event.time >= lost.time);
  return lost && !joined ? Math.min(span.end, run.lostAt(lost, span.begin)) : span.end;
}

class Lanes {
  constructor() {
    this.panel = html("div", {class: "panel lanes"});
  }

  draw(run, heading) {
    this.run = run;
    this.heading = heading;
    const rows = laneRows(run);
    this.panel.hidden = rows.length === 0;
    if (!rows.length) return;
    this.tip = html("div", {class: "tip", hidden: true});
    const width = Math.max(240, (this.panel.clientWidth || 1000) - 32);
    const narrow = width < 560;
    this.clock = run.clock();
    const labels = narrow ? 6 : 24 + 7.2 * Math.max(...rows.map(({label}) => Math.min(label.length, 24)));
    this.x = makeScale(0, this.clock.total || 1, labels, width - 16);
    this.row = narrow ? kLane + 16 : kLane;
    const height = rows.length * this.row + 34;
    this.drawing = svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Workers by time", "data-lanes": run.name});
    this.drawScale(rows.length * this.row + 6, width);
    rows.forEach((row, index) => this.drawRow(row, index * this.row + (narrow ? 16 : 0), narrow));
    this.panel.replaceChildren(html("h2", {}, ...heading), this.drawing, this.legend(run), this.tip);
  }

  legend(run) {
    const has = (part) => run.sessions.some((session) => session[part].length);
    const key = (mark, label) => html("span", {class: "key"}, svg("svg", {width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true"}, mark), label);
    return html("div", {class: "legend"}, has("saves") ? key(diamond(0, 0), "checkpoint") : null, key(circle(0, 0, "var(--c1)"), "validation or evaluation"),
                run.exports.length ? key(square(0, 0), "export") : null, has("lost") ? key(cross(0, 0), "lost") : null);
  }

  drawScale(bottom, width) {
    for (const tick of durationTicks(0, this.clock.total || 1, Math.min(8, width / 90))) {
      const at = this.x.at(tick);
      this.drawing.append(svg("line", {class: "grid", x1: at, x2: at, y1: 0, y2: bottom}),
                          svg("text", {x: at, y: bottom + 16, "text-anchor": "middle"}, showDuration(tick)));
    }
    this.clock.spans.slice(1).forEach(({begin}) => {
      const at = this.x.at(this.clock.at(begin));
      this.drawing.append(this.hover(svg("line", {class: "cursor", x1: at, x2: at, y1: 0, y2: bottom}), ["resumed", showTime(begin)]));
    });
  }

  at(time) {
    return this.x.at(this.clock.at(time));
  }

  drawRow(row, top, narrow) {
    const middle = top + kLane / 2;
    this.drawing.append(svg("text", {class: "lane-text", x: narrow ? 2 : 0, y: narrow ? top - 2 : middle + 4}, row.label.slice(0, 40)));
    const {run} = this;
    if (row.task !== undefined) {
      run.sessions.forEach((session, index) => this.drawPart(session, index, row.task, middle));
      run.sessions.forEach((session, index) => this.drawMarks(session, index, row.task, middle));
    }
    for (const one of run.evaluations.filter(({source}) => source === row.evaluation)) {
      this.drawing.append(this.hover(circle(this.at(one.time), middle, "var(--c1)"), [`evaluation of step ${showCount(one.step)}`, showTime(one.time)],
                                     {"data-evaluation": one.source, "data-step": one.step}));
    }
    for (const one of run.exports.filter(({exporter}) => exporter === row.exporter)) {
      this.drawing.append(this.hover(square(this.at(one.time), middle), [`export ${one.exporter}`, showTime(one.time)], {"data-export": one.exporter}));
    }
  }

  drawPart(session, index, task, middle) {
    const tasks = asList(session.start.tasks).map(asText);
    if (!tasks.includes(task)) return;
    const span = this.clock.spans[index];
    const end = endOf(this.run, session, span, task);
    const left = this.at(span.begin), width = Math.max(2, this.at(end) - left - 1);
    const ended = session.end ? asText(session.end.reason) : span.killed ? "killed: it wrote no end" : "no end was written: it runs, or was killed";
    this.drawing.append(this.hover(
      svg("rect", {class: "bar", x: left, y: middle - 7, width, height: 14, rx: 3}),
      [task, `start ${index + 1}, at step ${showCount(session.start.step)}: ${showTime(span.begin)}`, `${showDuration(end - span.begin)}; ${ended}`],
      {"data-task": task, "data-session": index}));
  }

  drawMarks(session, index, task, middle) {
    if (task === asText(asList(session.start.tasks)[0])) this.drawChief(session, this.clock.spans[index], index, middle);
    const lost = session.lost.find((event) => event.task === task);
    if (!lost) return;
    const time = this.run.lostAt(lost, this.clock.spans[index].begin);
    this.drawing.append(this.hover(cross(this.at(time), middle),
      [`${task} was lost after step ${showCount(lost.step)}`, showTime(time), asText(lost.reason)],
      {"data-lost": task, "data-step": lost.step, "data-time": time, "data-reason": asText(lost.reason)}));
  }

  drawChief(session, span, index, middle) {
    for (const save of session.saves) {
      this.drawing.append(this.hover(diamond(this.at(save.time), middle),
        [asText(save.checkpoint), `${showTime(save.time)}, written in ${showDuration(save.seconds)}`], {"data-save": save.step}));
    }
    const next = this.clock.spans[index + 1];
    const validated = new Map();
    for (const {source, tag, points} of this.run.series.values()) {
      if (source !== "train" || !tag.startsWith("validation/")) continue;
      for (const {step, time} of points) {
        if (time >= span.begin && (!next || time < next.begin)) validated.set(step, time);
      }
    }
    for (const [step, time] of validated) {
      this.drawing.append(this.hover(circle(this.at(time), middle, "var(--c1)"), [`validation after step ${showCount(step)}`, showTime(time)],
                                     {"data-validation": step}));
    }
  }

  /** Lines that show while the pointer is over `shape`. */
  hover(shape, lines, data = {}) {
    fill(shape, {...data, "aria-label": lines.filter(Boolean).join("; ")}, []);
    shape.addEventListener("pointermove", (event) => showTip(this.tip, this.panel, event, html("b", {}, lines[0]),
      ...lines.slice(1).filter(Boolean).map((line) => html("div", {}, line))));
    shape.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    return shape;
  }
}

const diamond = (x, y) => svg("path", {d: `M${x},${y - 6}l5,6l-5,6l-5,-6z`, fill: "var(--c2)", stroke: "var(--panel)"});
const circle = (x, y, color) => svg("circle", {cx: x, cy: y, r: 4.2, fill: color, stroke: "var(--panel)"});
const square = (x, y) => svg("rect", {x: x - 4.5, y: y - 4.5, width: 9, height: 9, rx: 1.5, fill: "var(--c3)", stroke: "var(--panel)"});
const cross = (x, y) => svg("path", {class: "lost", d: `M${x - 6},${y - 6}l12,12m0,-12l-12,12`});
