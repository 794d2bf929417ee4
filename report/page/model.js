// What the lines of one run say. A line is {source, line}, as report/page/run_directory.h has them; lines may be anybody's, so
// what is not of the expected kind counts as absent.

const kLineKeys = new Set(["step", "time", "session_start"]);
const asText = (value) => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
const asList = (value) => (Array.isArray(value) ? value : []);
const asObject = (value) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : {});

class Run {
  constructor(name) {
    this.name = name;
    this.series = new Map();  // "source\ntag" to {source, tag, points: [{step, time, value}]}
    this.sessions = [];       // {start, saves, lost, joined, end}, each an event or events
    this.evaluations = [];    // {source, step, time}
    this.exports = [];        // {exporter, time}
    this.lastTime = -Infinity;
    this.times = [];          // of all lines, to see where a killed session was last alive
  }

  add({source, line}) {
    if (isNumber(line.time)) {
      if (!String(source).startsWith("export/")) this.times.push(line.time);
      this.lastTime = Math.max(this.lastTime, line.time);
    }
    if (source === "run") this.addEvent(line);
    else if (String(source).startsWith("export/")) this.exports.push({exporter: source.slice(7), time: line.time});
    else this.addSummary(String(source), line);
  }

  addEvent(event) {
    if (!isNumber(event.time)) return;
    if (event.event === "start") {
      this.sessions.push({start: event, saves: [], lost: [], joined: [], end: null});
      return;
    }
    const session = this.sessions[this.sessions.length - 1];
    if (!session) return;
    if (event.event === "save") session.saves.push(event);
    if (event.event === "lost") session.lost.push(event);
    if (event.event === "joined") session.joined.push(event);
    if (event.event === "end") session.end = event;
  }

  addSummary(source, line) {
    if (!isNumber(line.step) || !isNumber(line.time)) return;
    if (line.session_start === true) {
      for (const one of this.series.values()) {
        if (one.source === source) one.points = one.points.filter((point) => point.step < line.step);
      }
      return;
    }
    let measured = false;
    for (const [tag, value] of Object.entries(line)) {
      if (kLineKeys.has(tag) || !(isNumber(value) || value === null)) continue;
      measured = true;
      const key = `${source}\n${tag}`;
      if (!this.series.has(key)) this.series.set(key, {source, tag, points: []});
      this.series.get(key).points.push({step: line.step, time: line.time, value});
    }
    if (measured && source !== "train") this.evaluations.push({source, step: line.step, time: line.time});
  }

  get first() { return this.sessions[0]; }
  get last() { return this.sessions[this.sessions.length - 1]; }
  get start() { return asObject(this.last && this.last.start); }

  /** {begin, end, killed, running} of a session: one that wrote no end was last alive when it last wrote something. */
  span(index) {
    const session = this.sessions[index];
    const begin = session.start.time;
    if (session.end) return {begin, end: Math.max(begin, session.end.time)};
    const next = this.sessions[index + 1];
    const limit = next ? next.start.time : Infinity;
    const end = this.times.reduce((latest, time) => (time > latest && time < limit ? time : latest), begin);
    return {begin, end, unended: true, killed: Boolean(next)};
  }

  /** When a worker was lost. Parameter servers tell at the end of training, with the step: then it is that step's time. */
  lostAt(event, begin) {
    let time = event.time;
    for (const {source, points} of this.series.values()) {
      if (source !== "train") continue;
      const after = points.find((point) => point.step >= event.step && point.time >= begin);
      if (after) time = Math.min(time, after.time);
    }
    return time;
  }

  /** Every task of any session, in order. */
  tasks() {
    const names = new Set();
    for (const {start} of this.sessions) for (const task of asList(start.tasks)) names.add(asText(task));
    return [...names];
  }

  /** A clock that stands still between sessions: the seconds of training until `time`. */
  clock() {
    const spans = this.sessions.map((_, index) => this.span(index));
    if (!spans.length) {
      const begin = this.times.reduce((earliest, time) => Math.min(earliest, time), Infinity);
      return {spans, total: Math.max(0, this.lastTime - begin), at: (time) => time - begin};
    }
    const at = (time) => {
      let passed = 0;
      for (const {begin, end} of spans) {
        if (time <= begin) break;
        passed += Math.min(time, end) - begin;
      }
      const {end} = spans[spans.length - 1];
      return time > end ? passed + time - end : passed;  // evaluations after the end
    };
    return {spans, total: at(Math.max(this.lastTime, spans[spans.length - 1].end)), at};
  }

  /** "lower" or "higher" of a loss or metric; "" if the run does not say. */
  better(group) {
    if (!Array.isArray(this.start.metrics)) return "";
    const metric = this.start.metrics.map(asObject).find(({name}) => name === group);
    return metric ? asText(metric.better) : "lower";  // a loss
  }

  lastStep() {
    let step = null;
    for (const {source, points} of this.series.values()) {
      if (source === "train" && points.length) step = Math.max(step ?? 0, points[points.length - 1].step);
    }
    const end = this.last && this.last.end;
    return end && isNumber(end.step) ? end.step : step;
  }

  /** Points of the chart `group` by role: "training", "training, whole epochs", "validation", "evaluation". */
  curves() {
    const groups = new Map();
    for (const one of this.series.values()) {
      const {group, role} = placeOf(one);
      if (!groups.has(group)) groups.set(group, new Map());
      groups.get(group).set(role, one.points);
    }
    return groups;
  }
}

function placeOf({source, tag}) {
  if (source === "eval") return {group: tag, role: "evaluation"};
  if (source !== "train") return {group: tag, role: `evaluation ${source.replace(/^eval_/, "")}`};
  if (tag.startsWith("train/")) return {group: tag.slice(6), role: "training, epochs"};
  if (tag.startsWith("validation/")) return {group: tag.slice(11), role: "validation"};
  return {group: tag, role: "training"};
}
