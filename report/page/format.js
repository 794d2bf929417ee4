// Elements and texts. What comes from a run's directory becomes text nodes and attributes of known names, never markup.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** A value to read: four significant digits, no long rows of zeros. */
function showNumber(value) {
  if (!isNumber(value)) return value === null || value === undefined ? "\u2013" : String(value);
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (Number.isInteger(value) && size < 1e15) return showCount(value);
  if (size < 1e-3 || size >= 1e7) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(size >= 1000 ? 5 : 4)));
}

const showCount = (value) => (isNumber(value) ? value.toLocaleString("en-US") : "\u2013");

/** The number of a tick. */
function showTick(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  for (const [unit, suffix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit && (unit > 1e3 || size >= 1e4)) return Number((value / unit).toPrecision(4)) + suffix;
  }
  if (size < 1e-3) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(6)));
}

function showDuration(seconds) {
  if (!isNumber(seconds)) return "\u2013";
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const whole = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([unit]) => whole >= unit);
  const [unit, name] = parts[first];
  const [next, nextName] = parts[first + 1] || [0, ""];
  const rest = next ? Math.floor((whole % unit) / next) : 0;
  return `${Math.floor(whole / unit)} ${name}` + (rest ? ` ${rest} ${nextName}` : "");
}

function showTime(seconds) {
  if (!isNumber(seconds) || Math.abs(seconds) > 8e12) return "\u2013";
  const date = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
         `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function showBytes(bytes) {
  if (!isNumber(bytes)) return "\u2013";
  return bytes >= 2 ** 30 ? `${Number((bytes / 2 ** 30).toPrecision(3))} GiB` : `${Number((bytes / 2 ** 20).toPrecision(3))} MiB`;
}

/** Round numbers that divide [low, high] into at most `most` parts. */
function ticksBetween(low, high, most, integers = false) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  if (integers) step = Math.max(1, Math.round(step));
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; ++index) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}

/** As ticksBetween, of seconds: whole minutes, hours and days. */
function durationTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const step = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400].find((candidate) => candidate >= rough);
  if (rough <= 30 || !step) return rough > 10 && rough <= 30 ? everyMultiple(low, high, rough <= 15 ? 15 : 30) : ticksBetween(low, high, most);
  return everyMultiple(low, high, step);
}

function everyMultiple(low, high, step) {
  const ticks = [];
  for (let index = Math.ceil(low / step); index * step <= high; ++index) ticks.push(index * step);
  return ticks;
}

/** Whole powers of ten, thinned out; between few of them also 2 and 5. */
function logTicks(low, high, most) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / most));
  const factors = last - first <= 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = first; power <= last; power += every) {
    for (const factor of factors) {
      const tick = Number((factor * 10 ** power).toPrecision(3));
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}
