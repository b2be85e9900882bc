
"use strict";
(() => {
  const by = id => document.getElementById(id);
  const show = id => { const one = by(id); if (one) one.hidden = false; return one; };

  // Copying commands.
  if (navigator.clipboard) {
    for (const code of document.querySelectorAll("code.command")) {
      const text = code.textContent, button = document.createElement("button");
      button.textContent = "copy";
      button.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { button.textContent = "copied"; }, () => {}));
      code.append(button);
    }
  }

  // A link to a problem opens it.
  const open = () => {
    const target = location.hash.length > 1 && by(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details.problem")) one.open = true; });

  // The report as a file.
  const report = by("report"), button = report && show("download");
  if (button) {
    by("nojs").hidden = true;
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([report.textContent], { type: "application/json" }));
      link.download = "rocescope-report.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // Flows: sort by a column, filter by words.
  const table = by("flowtable");
  if (table) {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const value = (row, at) => {
      const cell = row.cells[at], number = cell.dataset.v;
      return number === undefined ? cell.textContent : parseFloat(number);
    };
    const sort = at => {
      const head = heads[at], first = rows.length && typeof value(rows[0], at) === "number" ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort");
      const next = !now ? first : now === "ascending" ? "descending" : "ascending";
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      const order = (a, b) => {
        const x = value(a, at), y = value(b, at);
        if (typeof x === "string") return sign * x.localeCompare(y, "en", { numeric: true });
        // Unknown is last in either direction.
        return Number.isNaN(x) ? (Number.isNaN(y) ? 0 : 1) : Number.isNaN(y) ? -1 : sign * (x - y);
      };
      body.append(...rows.slice().sort(order));
    };
    heads.forEach((head, at) => {
      head.tabIndex = 0;
      head.addEventListener("click", () => sort(at));
      head.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(at); } });
    });
    show("tools");
    const filter = by("filter");
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(word => word);
      let count = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
        if (!row.hidden) count += 1;
      }
      by("matches").textContent = words.length ? `${count} of ${rows.length} rows` : "";
    });
  }

  // The timeline: zoom, and the values under the pointer.
  const chart = by("chart"), source = by("series");
  if (!chart || !source) return;
  const data = JSON.parse(source.textContent), total = data.columns;
  const plots = [...chart.querySelectorAll(".plot")], series = [...chart.querySelectorAll("svg.series")];
  const reading = document.createElement("p");
  reading.id = "reading";
  reading.className = "hint";
  const idle = "Point at the chart for values; drag to zoom, double-click for all.";
  reading.textContent = idle;
  chart.after(reading);
  let from = 0, to = total;
  const three = value => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
  const si = value => {
    let at = 0;
    while (value >= 999.5 && at < 6) { value /= 1000; at += 1; }
    return `${at === 0 && Number.isInteger(value) ? value : three(value)} ${["", "k", "M", "G", "T", "P", "E"][at]}`;
  };
  const figure = (value, unit) => {
    if (value === null) return "-";
    if (unit === "ratio") return value === 0 ? "0 %" : value < 0.0001 ? "<0.01 %" : `${three(value * 100)} %`;
    if (unit === "ns") return value < 1e3 ? `${value} ns` : value < 1e6 ? `${three(value / 1e3)} µs` : value < 1e9 ? `${three(value / 1e6)} ms` : `${three(value / 1e9)} s`;
    return `${si(unit === "" ? Math.round(value) : value)}${unit}`.trim();
  };
  const clock = column => {
    const ns = data.from_rest_ns + column * data.column_ns;
    return new Date(data.from_ms + Math.floor(ns / 1e6)).toISOString().slice(11, (to - from) * data.column_ns < 1e10 ? 23 : 19);
  };
  const draw = () => {
    for (const svg of series) svg.setAttribute("viewBox", `${from} 0 ${to - from} 100`);
    for (const rect of chart.querySelectorAll("rect[data-from]")) {
      const place = share => (share * total - from) / (to - from) * 100;
      const x = place(+rect.dataset.from), end = place(+rect.dataset.to);
      rect.setAttribute("x", `${x}%`);
      rect.setAttribute("width", `${Math.max(end - x, 0.4)}%`);
    }
    [...by("ticks").querySelectorAll("text")].forEach((text, at) => { text.textContent = clock(from + (to - from) * at / 5); });
  };
  const line = (id) => {
    const one = document.createElement("div");
    one.id = id;
    one.hidden = true;
    chart.append(one);
    return one;
  };
  const cursor = line("cursor"), selection = line("selection");
  const place = event => {
    const plot = plots[0].getBoundingClientRect(), inside = Math.min(Math.max(event.clientX - plot.left, 0), plot.width);
    return { x: plot.left - chart.getBoundingClientRect().left + inside, column: from + inside / plot.width * (to - from) };
  };
  let begin = null;
  chart.addEventListener("pointermove", event => {
    const { x, column } = place(event);
    cursor.hidden = false;
    cursor.style.left = `${x}px`;
    cursor.style.height = `${chart.clientHeight}px`;
    const at = Math.min(Math.floor(column), total - 1);
    reading.textContent = `${clock(at)} UTC: ${data.rows.map(row => `${row.name} ${figure(row.values[at], row.unit)}`).join(" · ")}`;
    if (begin) {
      selection.hidden = false;
      selection.style.left = `${Math.min(x, begin.x)}px`;
      selection.style.width = `${Math.abs(x - begin.x)}px`;
      selection.style.height = `${chart.clientHeight}px`;
    }
  });
  chart.addEventListener("pointerleave", () => { cursor.hidden = true; selection.hidden = true; begin = null; reading.textContent = idle; });
  chart.addEventListener("pointerdown", event => { if (event.button === 0 && !event.target.closest("a")) { begin = place(event); event.preventDefault(); } });
  chart.addEventListener("pointerup", event => {
    const end = begin && place(event), start = begin;
    begin = null;
    selection.hidden = true;
    if (!end || Math.abs(end.x - start.x) < 5) return;
    const [low, high] = [start.column, end.column].sort((a, b) => a - b);
    if (high - low < 2) return;
    [from, to] = [low, high];
    draw();
  });
  chart.addEventListener("dblclick", () => { [from, to] = [0, total]; draw(); });
})();
