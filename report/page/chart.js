// A line chart as SVG: axes with round ticks, legend that hides and shows, the values under the pointer.

const kMargin = {left: 58, right: 14, top: 8, bottom: 36};
const kChartHeight = 250;

/** A horizontal or vertical scale from values to pixels; of a logarithmic one values are above 0. */
function makeScale(low, high, from, to, log = false) {
  const place = log ? Math.log10 : (value) => value;
  const begin = place(low), span = place(high) - begin || 1;
  return {low, high, log, at: (value) => from + ((place(value) - begin) / span) * (to - from)};
}

function extent(curves, of, fits) {
  let low = Infinity, high = -Infinity;
  for (const {points} of curves) {
    for (const point of points) {
      const value = of(point);
      if (!isNumber(value) || !fits(point)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low <= high ? [low, high] : null;
}

/** Of many points that share a column of pixels, the first, the lowest, the highest and the last. */
function thinOut(points, columns) {
  if (points.length <= 4 * columns) return points;
  const first = points[0].x, width = (points[points.length - 1].x - first) / columns || 1;
  const kept = [];
  let column = [];
  const flush = () => {
    if (!column.length) return;
    const numbers = column.filter((point) => isNumber(point.y));
    const low = numbers.reduce((a, b) => (b.y < a.y ? b : a), numbers[0]);
    const high = numbers.reduce((a, b) => (b.y > a.y ? b : a), numbers[0]);
    const chosen = new Set([column[0], low, high, column[column.length - 1]]);
    kept.push(...column.filter((point) => chosen.has(point)));
    column = [];
  };
  let at = 0;
  for (const point of points) {
    const here = Math.floor((point.x - first) / width);
    if (here !== at) flush();
    at = here;
    column.push(point);
  }
  flush();
  return kept;
}

/** A path that breaks where a value is missing, and the points that stand alone. */
function pathOf(points, x, y, fits) {
  let path = "", open = false;
  const alone = [];
  points.forEach((point, index) => {
    if (!fits(point)) {
      open = false;
      return;
    }
    path += `${open ? "L" : "M"}${x.at(point.x).toFixed(2)},${y.at(point.y).toFixed(2)}`;
    const next = points[index + 1];
    if (!open && !(next && fits(next))) alone.push(point);
    open = true;
  });
  return {path, alone};
}

class Chart {
  /**
   * spec: {key, title, unit, xTitle, curves: [{role, label, color, dash, points: [{x, y, step}]}], marks: [{x, label}],
   * showX, ticksX, fromZero}; `kept` survives redrawing: {hidden: Set of labels, log}.
   */
  constructor(kept) {
    this.kept = kept;
    this.panel = html("div", {class: "panel chart"});
    this.panel.addEventListener("pointermove", (event) => this.point(event));
    this.panel.addEventListener("pointerleave", () => this.forget());
  }

  draw(spec) {
    this.spec = spec;
    this.forget();
    const {kept} = this;
    const redraw = () => this.draw(this.spec);
    const shown = spec.curves.filter((curve) => !kept.hidden.has(curve.label));
    const width = Math.max(240, (this.panel.clientWidth || 600) - 32);
    this.drawing = svg("svg", {height: kChartHeight, viewBox: `0 0 ${width} ${kChartHeight}`, role: "img", "data-chart": spec.key,
                               "aria-label": `${spec.title} by ${spec.xTitle}`});
    this.drawAxes(shown, width);
    this.drawMarks();
    for (const curve of shown) this.drawCurve(curve, width);
    this.drawing.append((this.cursor = svg("line", {class: "cursor", visibility: "hidden"})));
    const logButton = html("button", {type: "button", "aria-pressed": String(kept.log), title: "Logarithmic vertical axis",
                                      click: () => { kept.log = !kept.log; redraw(); }}, "log");
    const lost = spec.curves.reduce((sum, {points}) => sum + points.filter(({y}) => !isNumber(y)).length, 0);
    this.panel.replaceChildren(
      html("div", {class: "head"}, html("h3", {}, spec.title), spec.unit ? html("span", {class: "unit"}, spec.unit) : null, logButton),
      this.drawing, this.legend(redraw),
      lost ? html("p", {class: "notice"}, `${showCount(lost)} ${lost === 1 ? "value is" : "values are"} not finite`) : "");
    this.tip = html("div", {class: "tip", hidden: true});
    this.panel.append(this.tip);
  }

  legend(redraw) {
    const {hidden} = this.kept;
    const toggle = (label) => () => { hidden.delete(label) || hidden.add(label); redraw(); };
    if (this.spec.curves.length < 2) return "";
    return html("div", {class: "legend"}, ...this.spec.curves.map(({label, color, dash, spots}) =>
      html("button", {type: "button", "aria-pressed": String(!hidden.has(label)), click: toggle(label)}, sample(color, dash, spots), label)));
  }

  drawAxes(shown, width) {
    const {spec, kept} = this;
    // Twice as much is still a number.
    this.fits = ({x, y}) => Math.abs(x) < 1e300 && Math.abs(y) < 1e300 && isNumber(y) && (!kept.log || y > 1e-300);
    let [left, right] = extent(shown, ({x}) => x, this.fits) || [0, 1];
    let [low, high] = extent(shown, ({y}) => y, this.fits) || (kept.log ? [0.1, 1] : [0, 1]);
    if (left === right) [left, right] = [left - 1, right + 1];
    if (left > 0 && left < (right - left) / 4) left = 0;
    if (kept.log) [low, high] = [low / 1.12, high * 1.12];
    else [low, high] = roomy(spec.fromZero ? Math.min(0, low) : low, high);
    const bottom = kChartHeight - kMargin.bottom;
    this.x = makeScale(left, right, kMargin.left, width - kMargin.right);
    this.y = makeScale(low, high, bottom, kMargin.top, kept.log);
    const rows = kept.log ? logTicks(low, high, 6) : ticksBetween(low, high, 5);
    for (const tick of rows) {
      const at = this.y.at(tick);
      this.drawing.append(
        svg("line", {class: "grid", x1: kMargin.left, x2: width - kMargin.right, y1: at, y2: at}),
        svg("text", {x: kMargin.left - 8, y: at + 4, "text-anchor": "end", "data-axis": "y", "data-value": tick, "data-at": at}, showTick(tick)));
    }
    for (const tick of spec.ticksX(left, right, Math.min(7, width / 80))) {
      const at = this.x.at(tick);
      this.drawing.append(
        svg("line", {class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4}),
        svg("text", {x: at, y: bottom + 17, "text-anchor": "middle", "data-axis": "x", "data-value": tick, "data-at": at}, spec.showX(tick)));
    }
    this.drawing.append(
      svg("line", {class: "axis", x1: kMargin.left, x2: width - kMargin.right, y1: bottom, y2: bottom}),
      svg("text", {x: (kMargin.left + width - kMargin.right) / 2, y: kChartHeight - 3, "text-anchor": "middle"}, spec.xTitle));
  }

  drawMarks() {
    for (const {x, label} of this.spec.marks) {
      if (!isNumber(x) || x < this.x.low || x > this.x.high) continue;
      this.drawing.append(svg("line", {class: "mark", "data-mark": label, x1: this.x.at(x), x2: this.x.at(x), y1: kMargin.top,
                                       y2: kChartHeight - kMargin.bottom}));
    }
  }

  drawCurve({role, run, color, dash, points, spots}, width) {
    const thinned = thinOut(points, Math.round(width));
    const {path, alone} = pathOf(thinned, this.x, this.y, this.fits);
    this.drawing.append(svg("path", {class: "curve", d: path, stroke: color, "stroke-dasharray": dash, "data-role": role, "data-run": run}));
    const dots = spots && thinned.length <= width / 9 ? thinned.filter(this.fits) : alone;
    for (const point of dots) {
      this.drawing.append(svg("circle", {class: "point", cx: this.x.at(point.x).toFixed(2), cy: this.y.at(point.y).toFixed(2), r: 3.6, fill: color}));
    }
  }

  /** The values nearest to the pointer, by the horizontal axis. */
  point(event) {
    const box = this.drawing.getBoundingClientRect();
    const at = event.clientX - box.left;
    if (at < kMargin.left - 10 || at > box.width || event.clientY < box.top || event.clientY > box.bottom) return this.forget();
    const near = this.spec.curves.filter(({label}) => !this.kept.hidden.has(label))
      .map((curve) => ({...curve, point: this.nearest(curve.points, at)})).filter(({point}) => point);
    if (!near.length) return this.forget();
    const distance = ({point}) => Math.abs(this.x.at(point.x) - at);
    const {point} = near.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    const x = this.x.at(point.x);
    fill(this.cursor, {x1: x, x2: x, y1: kMargin.top, y2: kChartHeight - kMargin.bottom, visibility: "visible"}, []);
    const rows = near.filter((curve) => Math.abs(this.x.at(curve.point.x) - x) < box.width / 8).map((curve) =>
      html("div", {class: "row"}, sample(curve.color, curve.dash, curve.spots),
           html("span", {}, curve.label + (curve.point.x === point.x ? "" : ` (${this.spec.showX(curve.point.x)})`)),
           html("b", {class: "value"}, showNumber(curve.point.y))));
    const marks = this.spec.marks.filter((mark) => Math.abs(this.x.at(mark.x) - x) < 6).map(({label}) => html("div", {class: "notice"}, label));
    showTip(this.tip, this.panel, event, html("b", {}, `${this.spec.xTitle} ${this.spec.showX(point.x, true)}`), ...rows, ...marks);
  }

  nearest(points, at) {
    let best = null, least = Infinity;
    for (const point of points) {
      if (!this.fits(point)) continue;
      const distance = Math.abs(this.x.at(point.x) - at);
      if (distance < least) [best, least] = [point, distance];
    }
    return best;
  }

  forget() {
    if (this.tip) this.tip.hidden = true;
    if (this.cursor) this.cursor.setAttribute("visibility", "hidden");
  }
}

/** Room above and below, from 0 where that costs little. */
function roomy(low, high) {
  const span = high - low || Math.abs(high) || 1;
  if (low === high) return low > 0 ? [0, high * 1.3] : low < 0 ? [low * 1.3, 0] : [-1, 1];
  const down = low >= 0 && low < span * 0.35 ? 0 : low - span * 0.06;
  return [down, high + span * 0.06];
}

function sample(color, dash, spots) {
  return svg("svg", {width: 26, height: 10, viewBox: "0 0 26 10", "aria-hidden": "true"},
             svg("line", {class: "curve", x1: 1, x2: 25, y1: 5, y2: 5, stroke: color, "stroke-dasharray": dash}),
             spots ? svg("circle", {class: "point", cx: 13, cy: 5, r: 3.6, fill: color}) : null);
}

function showTip(tip, panel, event, ...children) {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const box = panel.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  tip.style.left = `${Math.max(4, x + tip.offsetWidth + 22 > box.width ? x - tip.offsetWidth - 14 : x + 14)}px`;
  tip.style.top = `${Math.max(4, y - tip.offsetHeight - 10)}px`;
}
