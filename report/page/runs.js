// Many runs: a row for each, with the settings in which they differ and what came out of them, in the order of any column.
// Those that are chosen are drawn below.

const kMostChosen = 6;  // there are as many colours

/** What all names begin with, up to a slash. */
function folderOf(names) {
  let end = names[0].lastIndexOf("/") + 1;
  while (end > 0 && !names.every((name) => name.startsWith(names[0].slice(0, end)))) end = names[0].lastIndexOf("/", end - 2) + 1;
  return names[0].slice(0, end);
}

class RunsTable {
  /** `choose(runs)` is called with those that are to be drawn. */
  constructor(runs, choose) {
    this.runs = runs;
    this.choose = choose;
    this.chosen = new Set(runs.slice(0, kMostChosen));
    this.sorted = {column: null, down: false};
    this.folder = folderOf(runs.map((run) => run.name));
    this.columns = [{title: "run", kind: "name", of: (run) => run.name.slice(this.folder.length)}, ...this.settings(), ...this.results(),
                    {title: "step", kind: "number", of: (run) => run.lastStep(), show: showCount},
                    {title: "time", kind: "number", of: (run) => run.clock().total, show: showDuration},
                    {title: "ended", of: (run) => (run.last && run.last.end ? asText(run.last.end.reason) : "\u2013")}];
  }

  settings() {
    const rows = sideBySide(this.runs, (run) => asList(run.start.settings), (entry) => asText(entry.value));
    return rows.filter(({name, differs}) => differs && name !== "model-dir").map(({name, values}) => {
      const numbers = values.every((value) => value !== "" && Number.isFinite(Number(value)));
      const of = (run) => (numbers ? Number : String)(values[this.runs.indexOf(run)]);
      return {title: name, kind: numbers ? "number" : null, of};
    });
  }

  /** Of each loss and metric the best and the last value, of validations where there are any. */
  results() {
    const roles = new Map();  // by group
    for (const run of this.runs) {
      for (const [group, curves] of run.curves()) {
        if (!kTitles.has(group)) roles.set(group, new Set([...(roles.get(group) || []), ...curves.keys()]));
      }
    }
    return [...roles].flatMap(([group, all]) => {
      const judged = [...all].filter((role) => !role.startsWith("training"));
      return (judged.length ? judged : ["training"]).flatMap((role) => {
        const values = (run) => ((run.curves().get(group) || new Map()).get(role) || []).map(({value}) => value).filter(isNumber);
        const title = `${group}, ${role}`;
        const best = (run) => (run.better(group) === "higher" ? Math.max : Math.min)(...values(run));
        const known = this.runs.some((run) => run.better(group));
        return [known ? {title: `best ${title}`, kind: "number", of: (run) => (values(run).length ? best(run) : null), show: showNumber} : null,
                {title: `last ${title}`, kind: "number", of: (run) => values(run).slice(-1)[0] ?? null, show: showNumber}].filter(Boolean);
      });
    });
  }

  /** The chosen runs have a dot in their colours. */
  draw() {
    const shown = this.runs.filter((run) => this.chosen.has(run));
    const heads = this.columns.map((column) => html("th", {class: column.kind, "aria-sort": this.order(column)},
      html("button", {type: "button", click: () => this.sortBy(column)}, column.title)));
    const rows = this.inOrder().map((run) => {
      const index = shown.indexOf(run);
      const box = html("input", {type: "checkbox", "aria-label": `draw ${run.name}`, change: () => this.toggle(run)});
      box.checked = index >= 0;
      box.disabled = index < 0 && shown.length >= kMostChosen;
      const dot = html("span", {class: "dot"});
      dot.style.setProperty("--dot", index >= 0 ? `var(--c${index})` : "transparent");
      return html("tr", {}, html("td", {}, box, dot), ...this.columns.map((column) => {
        const value = column.of(run);
        const shown = value === null ? "\u2013" : (column.show || String)(value);
        return html("td", {class: column.kind, title: column.kind ? null : shown}, shown);
      }));
    });
    const place = this.folder ? `of ${this.folder}; ` : "";
    const note = html("span", {class: "note"}, `${place}${shown.length} of ${this.runs.length} are drawn below, ${kMostChosen} at most`);
    return html("div", {class: "panel runs"}, html("h2", {}, "Runs", note),
                html("div", {class: "scroll"}, html("table", {}, html("thead", {}, html("tr", {}, html("th", {}), ...heads)), html("tbody", {}, ...rows))));
  }

  order(column) {
    if (this.sorted.column !== column) return "none";
    return this.sorted.down ? "descending" : "ascending";
  }

  /** What is missing comes last, whichever way. */
  inOrder() {
    const {column, down} = this.sorted;
    if (!column) return this.runs;
    const compare = (a, b) => (isNumber(a) && isNumber(b) ? a - b : String(a).localeCompare(String(b), "en", {numeric: true}));
    return [...this.runs].sort((one, other) => {
      const a = column.of(one), b = column.of(other);
      if (a === null || b === null) return (a === null) - (b === null);
      return down ? compare(b, a) : compare(a, b);
    });
  }

  sortBy(column) {
    this.sorted = {column, down: this.sorted.column === column && !this.sorted.down};
    this.changed();
  }

  toggle(run) {
    this.chosen.delete(run) || this.chosen.add(run);
    this.changed();
  }

  changed() {
    this.choose(this.runs.filter((run) => this.chosen.has(run)));
  }
}
