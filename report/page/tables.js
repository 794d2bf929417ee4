// Tables below the charts: settings and where each came from, checkpoints and exports, parameters, the machine. With two
// runs a column each, and rows that differ are marked.

function table(columns, rows) {
  const cell = (tag, column, content) => html(tag, {class: column.kind}, content);
  return html("div", {class: "scroll"}, html("table", {},
    html("thead", {}, html("tr", {}, ...columns.map((column) => cell("th", column, column.title)))),
    html("tbody", {}, ...rows.map(({cells, differs}) =>
      html("tr", {class: differs ? "differs" : null}, ...cells.map((content, index) => cell("td", columns[index], content)))))));
}

function section(title, note, open, ...content) {
  return html("div", {class: "panel"}, html("details", {open, "data-table": title},
    html("summary", {}, title, note ? html("span", {class: "note"}, note) : null), ...content));
}

/** One row per name of any run's list: `valueOf` gives what is shown and compared. */
function sideBySide(runs, listOf, valueOf) {
  const names = new Set();
  const maps = runs.map((run) => {
    const map = new Map();
    for (const entry of listOf(run).map(asObject)) {
      map.set(asText(entry.name), entry);
      names.add(asText(entry.name));
    }
    return map;
  });
  return [...names].map((name) => {
    const entries = maps.map((map) => map.get(name));
    const values = entries.map((entry) => (entry ? valueOf(entry) : "\u2013"));
    return {name, entries, values, differs: values.some((value) => value !== values[0])};
  });
}

function settingsTable(runs) {
  const rows = sideBySide(runs, (run) => asList(run.start.settings), (entry) => asText(entry.value) || "\u2013");
  if (!rows.length) return null;
  const columns = [{title: "setting", kind: "name"}];
  for (const run of runs) columns.push({title: runs.length > 1 ? run.name : "value"}, {title: "from", kind: "source"});
  const cells = (row) => [row.name, ...row.entries.flatMap((entry, index) => [row.values[index], entry ? asText(entry.source) : ""])];
  const lines = rows.map((row) => ({cells: cells(row), differs: row.differs}));
  const differing = rows.filter((row) => row.differs).length;
  const chosen = rows.filter((row) => row.entries.some((entry) => entry && asText(entry.source) !== "default")).length;
  const note = runs.length > 1 ? `${differing} of ${rows.length} differ` : `${chosen} of ${rows.length} were set, the rest are defaults`;
  const first = (row) => (runs.length > 1 ? row.differs : row.entries.some((entry) => entry && asText(entry.source) !== "default"));
  const shown = lines.filter((_, index) => first(rows[index])), rest = lines.filter((_, index) => !first(rows[index]));
  const content = [shown.length ? table(columns, shown) : null];
  if (rest.length) {
    content.push(html("details", {class: "rest", "data-table": "Other settings", open: !shown.length},
                      html("summary", {}, runs.length > 1 ? "Equal settings" : "Defaults"), table(columns, rest)));
  }
  return section("Settings", note, true, ...content);
}

function parametersTable(runs) {
  const shape = (entry) => `[${asList(entry.shape).map(asText).join(", ")}]`;
  const rows = sideBySide(runs, (run) => asList(run.start.parameters), (entry) => `${shape(entry)} ${entry.trained === false ? "frozen" : ""}`);
  if (!rows.length) return null;
  const columns = [{title: "parameter", kind: "name"}];
  for (const run of runs) columns.push({title: runs.length > 1 ? `shape, ${run.name}` : "shape"}, {title: "values", kind: "number"}, {title: ""});
  const lines = rows.map((row) => ({differs: row.differs, cells: [row.name, ...row.entries.flatMap((entry) =>
    entry ? [shape(entry), showCount(entry.count), entry.trained === false ? "not trained" : ""] : ["\u2013", "", ""])]}));
  const totals = runs.map((run) => asList(run.start.parameters).map(asObject).reduce((sum, {count}) => sum + (isNumber(count) ? count : 0), 0));
  return section("Parameters", totals.map((total) => `${showCount(total)} values`).join(" and "), false, table(columns, lines));
}

function savedTable(runs) {
  const columns = [{title: "run"}, {title: "saved", kind: "name"}, {title: "step", kind: "number"}, {title: "time"}, {title: "written in", kind: "number"}]
    .slice(runs.length > 1 ? 0 : 1);
  const lines = [];
  for (const run of runs) {
    const rows = run.sessions.flatMap(({saves}) => saves.map((save) =>
      ({time: save.time, cells: [asText(save.checkpoint), showCount(save.step), showTime(save.time), showDuration(save.seconds)]})));
    for (const one of run.exports) rows.push({time: one.time, cells: [`export/${one.exporter}/${one.time}`, "", showTime(one.time), ""]});
    rows.sort((a, b) => a.time - b.time);
    for (const {cells} of rows) lines.push({cells: runs.length > 1 ? [run.name, ...cells] : cells});
  }
  if (!lines.length) return null;
  return section("Checkpoints and exports", `${lines.length}; old checkpoints may have been removed since`, false, table(columns, lines));
}

/** The starts and ends of a run, and who was lost. */
function eventsTable(runs) {
  const columns = [{title: "run"}, {title: "time"}, {title: "step", kind: "number"}, {title: "event"}, {title: ""}].slice(runs.length > 1 ? 0 : 1);
  const lines = [];
  for (const run of runs) {
    const put = (event, what, detail) => {
      const cells = [showTime(event.time), showCount(event.step), what, detail];
      lines.push({cells: runs.length > 1 ? [run.name, ...cells] : cells});
    };
    run.sessions.forEach(({start, lost, joined, end}, index) => {
      put(start, index ? "resumed" : "started", `${asText(start.strategy)}, ${asList(start.tasks).map(asText).join(", ")}`);
      const members = [...lost, ...joined].sort((a, b) => a.time - b.time);
      for (const event of members) put(event, event.event, `${asText(event.task)}${event.reason ? ": " : ""}${asText(event.reason)}`);
      if (end) put(end, "ended", `${asText(end.reason)} (exit code ${asText(end.exit_code)})`);
      else if (run.span(index).killed) put({time: run.span(index).end}, "killed", "no end was written before the next start");
    });
  }
  return lines.length ? section("Starts and ends", "", false, table(columns, lines)) : null;
}

function machineTable(runs) {
  const flat = (prefix, value) => Object.entries(asObject(value)).map(([name, one]) => ({name: prefix + name, value:
    name === "memory_bytes" ? showBytes(one) : asText(one)}));
  const rows = sideBySide(runs, (run) => [...flat("", run.start.machine), ...flat("version of ", run.start.versions)], (entry) => entry.value);
  if (!rows.length) return null;
  const columns = [{title: "", kind: "name"}, ...runs.map((run) => ({title: runs.length > 1 ? run.name : ""}))];
  return section("Machine", "", false, table(columns, rows.map((row) => ({differs: row.differs, cells: [row.name.replaceAll("_", " "), ...row.values]}))));
}
