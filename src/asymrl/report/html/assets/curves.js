"use strict";

// Learning curves of a store: a chart for each world, drawn by uPlot, and controls for what is shown.
function startCurves(element, data) {
  const MOST_LINES = 12, MOST_SEEDS = 40, PRINT_WIDTH = 340;
  const distinct = (values) => [...new Set(values)];
  const colours = new Map(), dashes = new Map();
  const lines = data.worlds.flatMap((world) => world.lines);
  const labels = distinct(lines.map((line) => line.label)), isMany = labels.length > MOST_LINES;
  const seeds = distinct(lines.flatMap((line) => line.seeds)).sort((a, b) => a - b);
  const hasRuns = lines.some((line) => line.runs.length > 1) && lines.some((line) => Object.keys(line.values).length > 0);
  if (!isMany) lines.forEach((line) => colours.set(line.label, line.colour));
  else ranked(labels).forEach(distinguish);
  const state = {
    metric: data.metrics.length ? data.metrics[0].name : null,
    view: "mean",
    worlds: new Set(data.worlds.map((world) => world.name)),
    labels: new Set(isMany ? ranked(labels).slice(0, MOST_LINES) : labels),
    seeds: new Set(seeds),
  };
  const charts = new Map(); // by the name of the world
  const zooms = new Map();
  const area = element.querySelector(".charts"), controls = element.querySelector(".controls");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follows = document.getElementById("section-live") !== null;
  let printing = false;

  // Many lines need dashes besides colours; the best ones have the first of both.
  function distinguish(label) {
    const rank = dashes.size, count = data.palette.length;
    colours.set(label, data.palette[rank % count]);
    dashes.set(label, [[], [8, 4], [3, 3]][Math.min(2, Math.floor(rank / count))]);
  }

  // A page that follows a training is loaded again for new points. What is shown and zoomed into stays; what is new is shown.
  function names() {
    return { worlds: data.worlds.map((world) => world.name), labels, seeds };
  }

  function remember() {
    const shown = { worlds: [...state.worlds], labels: [...state.labels], seeds: [...state.seeds] };
    const { metric, view } = state;
    if (follows) sessionStorage.setItem("curves", JSON.stringify({ metric, view, shown, known: names(), zooms: [...zooms] }));
  }

  function recall() {
    const kept = follows && JSON.parse(sessionStorage.getItem("curves"));
    if (!kept) return;
    if (data.metrics.some((metric) => metric.name === kept.metric)) state.metric = kept.metric;
    state.view = kept.view;
    for (const [kind, all] of Object.entries(names())) {
      const isNew = (name) => state[kind].has(name) && !kept.known[kind].includes(name);
      state[kind] = new Set(all.filter((name) => kept.shown[kind].includes(name) || isNew(name)));
    }
    kept.zooms.forEach(([name, zoom]) => zooms.set(name, zoom));
  }

  // The labels by their best rank in a world, where the mean at the end decides.
  function ranked(all) {
    const ranks = new Map(all.map((label) => [label, Infinity]));
    for (const world of data.worlds) {
      const last = (line) => (Object.values(line.mean)[0] || []).findLast((value) => value !== null) ?? -Infinity;
      [...world.lines].sort((a, b) => last(b) - last(a)).forEach((line, rank) => {
        ranks.set(line.label, Math.min(ranks.get(line.label), rank));
      });
    }
    return [...all].sort((a, b) => ranks.get(a) - ranks.get(b));
  }

  // Controls.

  function node(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made[name] = value;
    made.append(...children);
    return made;
  }

  function swatch(label) {
    const dot = node("span", { className: (dashes.get(label) || []).length ? "swatch dashed" : "swatch" });
    dot.style.color = visible(colours.get(label));
    return dot;
  }

  function row(title, ...children) {
    controls.append(node("fieldset", {}, node("legend", { textContent: title }), node("div", {}, ...children)));
  }

  function choices(title, names, chosen, mark) {
    const boxes = names.map((name) => {
      const box = node("input", { type: "checkbox", checked: chosen.has(name) });
      box.dataset.choice = title + ":" + name;
      box.addEventListener("change", () => {
        if (box.checked) chosen.add(name);
        else chosen.delete(name);
        draw();
      });
      return [name, box];
    });
    const all = (on) => () => {
      for (const [name, box] of boxes) {
        box.checked = on;
        if (on) chosen.add(name);
        else chosen.delete(name);
      }
      draw();
    };
    const buttons = [["all", true], ["none", false]].map(([text, on]) => {
      const button = node("button", { type: "button", textContent: text });
      button.addEventListener("click", all(on));
      return button;
    });
    row(title, ...boxes.map(([name, box]) => node("label", {}, box, ...(mark ? [mark(name)] : []), String(name))),
      ...(names.length > 3 ? [node("span", { className: "both" }, ...buttons)] : []));
  }

  function buildControls() {
    controls.replaceChildren();
    const shown = [];
    if (data.metrics.length > 1) {
      const select = node("select", { ariaLabel: "metric" },
        ...data.metrics.map((metric) => node("option", { value: metric.name, textContent: metric.label })));
      select.value = state.metric;
      select.addEventListener("change", () => { state.metric = select.value; draw(); });
      shown.push(select);
    }
    if (hasRuns) {
      for (const [value, text] of [["mean", "mean ± standard error"], ["runs", "each run"]]) {
        const radio = node("input", { type: "radio", name: "view", value, checked: state.view === value });
        radio.addEventListener("change", () => { state.view = value; buildControls(); draw(); });
        shown.push(node("label", {}, radio, text));
      }
    }
    const reset = node("button", { type: "button", textContent: "reset zoom" });
    reset.addEventListener("click", () => { zooms.clear(); draw(); });
    row("Show", ...shown, reset);
    if (data.worlds.length > 1) choices("World", data.worlds.map((world) => world.name), state.worlds);
    choices("Method", isMany ? ranked(labels) : labels, state.labels, swatch);
    if (state.view === "runs" && seeds.length > 1 && seeds.length <= MOST_SEEDS) choices("Seed", seeds, state.seeds);
  }

  // Charts.

  function isDark() { return dark.matches && !printing; }

  function css(name) {
    return printing ? { ink: "#22303C", muted: "#6F7B86", faint: "#D5DADF", grid: "#E9ECEF", paper: "#FFFFFF" }[name]
      : getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // A colour that is dark on a dark page becomes lighter.
  function visible(colour) {
    if (!isDark()) return colour;
    let parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    while (0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2] < 105) parts = parts.map((part) => Math.round(part * 0.85 + 255 * 0.15));
    return "#" + parts.map((part) => part.toString(16).padStart(2, "0")).join("");
  }

  function quantity(value) {
    if (value === null || value === undefined) return "–";
    return Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
  }

  function steps(value) {
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= size) return Number((value / size).toPrecision(4)) + unit;
    }
    return String(value);
  }

  // Series of a world: their values on one axis, and what uPlot should know of each.
  function seriesOf(world) {
    const tables = [], series = [{}], bands = [];
    for (const line of world.lines) {
      if (!state.labels.has(line.label)) continue;
      const x = world.axes[line.axis], colour = visible(colours.get(line.label)), dash = dashes.get(line.label);
      if (state.view === "mean") {
        const mean = line.mean[state.metric], error = line.error[state.metric];
        if (mean === undefined) continue;
        const edge = (sign) => mean.map((value, i) => (value === null ? null : value + sign * (error[i] ?? 0)));
        tables.push([x, edge(1), mean, edge(-1)]);
        const first = series.length, bound = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
        series.push(bound, { label: line.label, line, stroke: colour, width: 2, dash, points: { show: false }, spanGaps: true }, { ...bound });
        bands.push({ series: [first, first + 2], fill: colour + "38" });
      } else {
        (line.values[state.metric] || []).forEach((values, i) => {
          if (!state.seeds.has(line.seeds[i])) return;
          tables.push([x, values]);
          series.push({ label: line.label, line, seed: line.seeds[i], run: line.runs[i], failed: line.failed[i], stroke: colour, dash,
            width: 1, points: { show: false }, spanGaps: true });
        });
      }
    }
    return { tables, series, bands };
  }

  // Whether the lines that are chosen have values, but none of this metric.
  function isMissing(world) {
    const chosen = world.lines.filter((line) => state.labels.has(line.label) && Object.keys(line.mean).length);
    return chosen.length > 0 && chosen.every((line) => line.mean[state.metric] === undefined);
  }

  function insidePlot(chart, paint) {
    const context = chart.ctx, { left, width, top, height } = chart.bbox;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    paint(context, { left, width, top, height, ratio: devicePixelRatio });
    context.restore();
  }

  // Lines at the returns of a random and of the best known policy.
  function drawReferences(chart, references) {
    insidePlot(chart, (context, { left, width, ratio }) => references.forEach(({ low, high }) => {
      const [y0, y1] = [chart.valToPos(high, "y", true), chart.valToPos(low, "y", true)];
      context.fillStyle = context.strokeStyle = css("muted");
      if (y1 - y0 > 1) {
        context.globalAlpha = 0.18;
        context.fillRect(left, y0, width, y1 - y0);
        context.globalAlpha = 1;
      } else {
        context.lineWidth = ratio;
        context.setLineDash([4 * ratio, 3 * ratio]);
        context.beginPath();
        context.moveTo(left, y0);
        context.lineTo(left + width, y0);
        context.stroke();
      }
    }));
  }

  // Their names, where there are fewest curves: below the random policy and above the best; below another one if a line
  // is close above it.
  function nameReferences(chart, references) {
    insidePlot(chart, (context, { left, width, ratio }) => references.forEach(({ label, low, high }, i) => {
      const [y0, y1] = [chart.valToPos(high, "y", true), chart.valToPos(low, "y", true)];
      const isCrowded = references.some((other, j) => {
        const distance = y0 - chart.valToPos(other.low, "y", true);
        return j !== i && distance >= 0 && distance < 20 * ratio;
      });
      const y = i === 0 || isCrowded ? y1 + 13 * ratio : y0 - 5 * ratio;
      context.font = 11 * ratio + "px system-ui, sans-serif";
      context.textAlign = "right";
      context.lineWidth = 3 * ratio;
      context.strokeStyle = css("paper");
      context.fillStyle = css("muted");
      context.strokeText(label, left + width - 4 * ratio, y);
      context.fillText(label, left + width - 4 * ratio, y);
    }));
  }

  function nearest(values, at) {
    for (let d = 0; d < values.length; d++) {
      for (const i of [at - d, at + d]) if (values[i] !== null && values[i] !== undefined) return i;
    }
    return null;
  }

  function tipRow(label, text) {
    return node("tr", {}, node("td", {}, swatch(label), label), node("td", { textContent: text }));
  }

  function fillTip(chart, tip) {
    const { idx, left, top } = chart.cursor;
    tip.hidden = idx === null || idx === undefined || left < 0;
    if (tip.hidden) return;
    const body = node("table"), rows = [];
    chart.series.forEach((one, s) => {
      if (!one.line) return;
      const i = nearest(chart.data[s], idx);
      if (i === null || Math.abs(chart.data[0][i] - chart.data[0][idx]) > 0.02 * (chart.scales.x.max - chart.scales.x.min)) return;
      const value = chart.data[s][i];
      rows.push({ one, value, i, distance: Math.abs(chart.valToPos(value, "y") - top), s });
    });
    if (state.view === "mean") {
      rows.sort((a, b) => b.value - a.value);
      for (const { one, value, i, s } of rows.slice(0, MOST_LINES)) {
        const error = chart.data[s - 1][i] - value;
        body.append(tipRow(one.label, quantity(value) + (error > 0 ? " ± " + quantity(error) : "")));
      }
    } else if (rows.length) {
      rows.sort((a, b) => a.distance - b.distance);
      const { one, value } = rows[0];
      body.append(tipRow(one.label, quantity(value)));
      body.append(node("tr", {}, node("td", { textContent: "seed " + one.seed + (one.failed ? ", failed" : "") }),
        node("td", { textContent: "run " + one.run })));
    }
    tip.replaceChildren(node("div", { textContent: "step " + steps(chart.data[0][idx]) }), body);
    const over = chart.over.getBoundingClientRect(), host = tip.parentElement.getBoundingClientRect();
    const wide = tip.offsetWidth, x = over.left - host.left + left;
    tip.style.left = Math.max(0, x + 16 + wide > host.width ? x - wide - 16 : x + 16) + "px";
    tip.style.top = over.top - host.top + Math.max(0, Math.min(top, over.height - tip.offsetHeight)) + "px";
  }

  function build(world, host) {
    const { tables, series, bands } = seriesOf(world), zoom = zooms.get(world.name);
    const lone = state.worlds.size === 1, width = printing ? PRINT_WIDTH * (lone ? 2 : 1) : host.clientWidth;
    const tip = node("div", { className: "tip", hidden: true });
    const ends = world.axes.map((axis) => axis[axis.length - 1]);
    const axis = { stroke: css("muted"), grid: { stroke: css("grid"), width: 1 }, ticks: { stroke: css("faint"), width: 1, size: 5 }, font: "12px system-ui, sans-serif" };
    const isReturn = state.metric === "return" || state.metric === "evaluation_return";
    const references = isReturn ? world.references : [];
    const options = {
      width, height: Math.round(lone ? Math.min(460, Math.max(280, 0.42 * width)) : Math.max(220, 0.55 * width)),
      series, bands, legend: { show: false },
      scales: {
        x: { time: false, range: (_, low, high) => (zoom && zoom.x) || (low === null ? [0, Math.max(...ends)] : [Math.min(low, 0), high]) },
        y: { range: (_, low, high) => (zoom && zoom.y) || room(low, high, references) },
      },
      padding: [10, 14, 0, 0],
      axes: [{ ...axis, size: 32, label: "steps", labelSize: 18, labelGap: 0, labelFont: axis.font, values: (_, ticks) => ticks.map(steps) }, { ...axis, size: 56, values: (_, ticks) => ticks.map(quantity) }],
      cursor: { drag: { x: true, y: true, uni: 30, setScale: false }, focus: { prox: state.view === "runs" ? 12 : -1 }, points: { show: false } },
      focus: { alpha: 0.3 },
      hooks: {
        drawAxes: [(chart) => drawReferences(chart, references)],
        draw: [(chart) => nameReferences(chart, references)],
        setCursor: [(chart) => fillTip(chart, tip)],
        setSelect: [(chart) => {
          const { left, top, width: across, height: down } = chart.select;
          if (across < 5 && down < 5) return;
          const span = (scale, from, to) => [chart.posToVal(from, scale), chart.posToVal(to, scale)];
          const old = zooms.get(world.name) || {};
          zooms.set(world.name, {
            x: across >= 5 && across < chart.over.clientWidth ? span("x", left, left + across) : old.x,
            y: down >= 5 && down < chart.over.clientHeight ? span("y", top + down, top) : old.y,
          });
          draw();
        }],
      },
    };
    const values = tables.length ? uPlot.join(tables) : [[0]];
    const chart = new uPlot(options, values, host);
    chart.over.addEventListener("dblclick", () => { zooms.delete(world.name); draw(); });
    host.append(tip);
    return chart;
  }

  function room(low, high, references) {
    const all = [low, high, ...references.flatMap((one) => [one.low, one.high])].filter((value) => value !== null);
    if (!all.length) return [0, 1];
    const bottom = Math.min(...all), top = Math.max(...all), more = 0.12 * (top - bottom || Math.abs(top) || 1);
    return [bottom - more, top + more];
  }

  function draw() {
    remember();
    for (const chart of charts.values()) chart.destroy();
    charts.clear();
    area.replaceChildren();
    area.classList.toggle("single", state.worlds.size === 1);
    const shown = data.worlds.filter((world) => state.worlds.has(world.name));
    const hosts = shown.map((world) => node("div", { className: "chart" }, node("h3", { textContent: world.name })));
    area.append(...hosts);
    shown.forEach((world, i) => {
      if (isMissing(world)) hosts[i].append(node("p", { className: "note", textContent: "Not measured in these runs." }));
      else charts.set(world.name, build(world, hosts[i]));
    });
  }

  let width = area.clientWidth;
  new ResizeObserver(() => {
    if (printing || area.clientWidth === width) return;
    width = area.clientWidth;
    draw();
  }).observe(area);
  dark.addEventListener("change", () => { buildControls(); draw(); });
  window.addEventListener("beforeprint", () => { printing = true; buildControls(); draw(); });
  window.addEventListener("afterprint", () => { printing = false; buildControls(); draw(); });
  recall();
  buildControls();
  draw();
  element.charts = charts; // for the console
}
