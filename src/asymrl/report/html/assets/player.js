// Steps through episodes of trained agents. The data are those of asymrl.report.html.player_data.
"use strict";

const PLAYER_MILLISECONDS = 600;
const PLAYER_MOST_BARS = 8;
const PLAYER_SERIES = [
  ["values", "critic", "accent", 2.5],
  ["followed", "discounted return that followed", "vermilion", 1],
  ["V_h", "V(h)", "green", 1.5],
  ["V_hs", "V(h, s)", "orange", 1.5],
  ["V_s", "V(s)", "purple", 1.5],
];
/** True values are exact, or the mean of simulated continuations where there are too many histories. */
const playerLabel = (episode, [field, label]) =>
  field.startsWith("V_") ? `${episode.simulated ? "true" : "exact"} ${label}` : label;

/** Brings the episode player to life inside `element`, the section. */
function startPlayer(element, data) {
  const root = element.querySelector(".player");
  if (!data.episodes.length) return;
  const state = { shown: [0], t: 0, timer: null };
  const make = makeElement;

  const episodeChoice = make("select", { id: "player-episode" });
  const otherChoice = make("select", { id: "player-other" });
  const slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "Step of the episode" });
  const status = make("output", { class: "player-step", "aria-live": "polite" });
  const buttons = Object.fromEntries(
    [
      ["first", "|◀", "First step (Home)", () => go(0)],
      ["back", "◀", "One step back (left arrow)", () => go(state.t - 1)],
      ["play", "Play", "Play or pause (space)", () => (state.timer ? pause() : play())],
      ["on", "▶", "One step on (right arrow)", () => go(state.t + 1)],
      ["last", "▶|", "Last step (End)", () => go(last())],
    ].map(([name, text, title, act]) => {
      const button = make("button", { type: "button", title, "aria-label": title, class: `player-${name}` }, text);
      button.addEventListener("click", () => {
        if (name !== "play") pause();
        act();
      });
      return [name, button];
    }),
  );
  const lanes = make("div", { class: "player-lanes" });
  root.append(
    make("div", { class: "player-choices" },
      make("label", { for: "player-episode" }, "Episode", episodeChoice),
      make("label", { for: "player-other" }, "Compare with", otherChoice)),
    make("div", { class: "player-controls" }, ...Object.values(buttons), slider, status),
    lanes,
    data.left_out ? make("p", { class: "player-note" }, `${data.left_out} more episodes did not fit into this page.`) : "",
  );
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Episode player");
  root.tabIndex = 0;

  const agentOf = (i) => data.agents[data.episodes[i].agent];
  const sameStart = (i, j) =>
    data.episodes[i].start === data.episodes[j].start && agentOf(i).world === agentOf(j).world;
  const last = () => Math.max(...state.shown.map((i) => data.episodes[i].steps));
  const name = (i) => {
    const { length, return: total } = data.episodes[i];
    return `${agentOf(i).label}: return ${numberText(total)} in ${length} step${length === 1 ? "" : "s"}`;
  };

  const groups = new Map();
  data.episodes.forEach((episode, i) => {
    const title = `${agentOf(i).world}, start ${episode.start}`;
    if (!groups.has(title)) groups.set(title, episodeChoice.appendChild(make("optgroup", { label: title })));
    groups.get(title).append(make("option", { value: i }, name(i)));
  });

  function choose(episode, other) {
    pause();
    state.shown = other === null ? [episode] : [episode, other];
    episodeChoice.value = String(episode);
    otherChoice.replaceChildren(make("option", { value: "" }, "nothing"));
    data.episodes.forEach((_, i) => {
      if (i !== episode && sameStart(i, episode)) otherChoice.append(make("option", { value: i }, name(i)));
    });
    otherChoice.value = other === null ? "" : String(other);
    lanes.replaceChildren();
    lanes.className = `player-lanes ${state.shown.length > 1 ? "player-two" : "player-one"}`;
    state.drawn = state.shown.map((i) => playerLane(lanes, data, i, (t) => (pause(), go(t))));
    slider.max = last();
    go(Math.min(state.t, last()));
  }

  function go(t) {
    state.t = Math.max(0, Math.min(t, last()));
    slider.value = state.t;
    slider.setAttribute("aria-valuetext", `step ${state.t} of ${last()}`);
    status.textContent = `step ${state.t} of ${last()}`;
    buttons.back.disabled = buttons.first.disabled = state.t === 0;
    buttons.on.disabled = buttons.last.disabled = state.t === last();
    state.drawn.forEach((draw) => draw(state.t));
  }

  function play() {
    if (state.t === last()) go(0);
    buttons.play.textContent = "Pause";
    status.setAttribute("aria-live", "off");
    state.timer = setInterval(() => (state.t < last() ? go(state.t + 1) : pause()), PLAYER_MILLISECONDS);
  }

  function pause() {
    clearInterval(state.timer);
    state.timer = null;
    buttons.play.textContent = "Play";
    status.setAttribute("aria-live", "polite");
  }

  slider.addEventListener("input", () => (pause(), go(Number(slider.value))));
  episodeChoice.addEventListener("change", () => {
    const chosen = Number(episodeChoice.value);
    const compared = state.shown[1] === undefined ? null : data.episodes[state.shown[1]].agent;
    const other = data.episodes.findIndex((each, i) => each.agent === compared && i !== chosen && sameStart(i, chosen));
    state.t = 0;
    choose(chosen, other < 0 ? null : other);
  });
  otherChoice.addEventListener("change", () =>
    choose(state.shown[0], otherChoice.value === "" ? null : Number(otherChoice.value)));
  root.addEventListener("keydown", (event) => {
    const keys = {
      ArrowLeft: () => go(state.t - 1), ArrowRight: () => go(state.t + 1), Home: () => go(0), End: () => go(last()),
      " ": () => (state.timer ? pause() : play()),
    };
    const inside = event.target.tagName;
    if (inside === "SELECT" && event.key === " ") return; // opens the list; up and down choose from it
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (inside === "BUTTON" && event.key === " ") return; // presses the button
    event.preventDefault();
    if (event.key !== " ") pause();
    keys[event.key]();
  });
  // Before anything is clicked: while the player is in view, the arrows that would not scroll the page.
  document.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.target !== document.body || event.ctrlKey || event.metaKey || event.altKey) return;
    const { top, bottom } = slider.getBoundingClientRect();
    if (!slider.isConnected || bottom < 0 || top > window.innerHeight) return;
    pause();
    go(state.t + step);
  });

  const other = data.episodes.findIndex((each, i) => i > 0 && sameStart(i, 0));
  choose(0, other < 0 ? null : other);
}

/** Builds the place of one episode and returns the function that shows a step of it. */
function playerLane(parent, data, number, go) {
  const make = makeElement;
  const episode = data.episodes[number];
  const agent = data.agents[episode.agent];
  const T = episode.steps;
  const [state, view] = [make("img", { alt: "" }), make("img", { alt: "" })];
  const over = make("p", { class: "player-over" }, "the episode has ended");
  const facts = make("p", { class: "player-facts" });
  const [policy, belief, values] = ["policy", "belief", "values"].map((name) => make("div", { class: `player-${name}` }));
  const chart = make("div", { class: "player-chart" });
  const note = agent.missing ? make("p", { class: "player-note" }, agent.missing) : "";
  const cut = T < episode.length ? make("p", { class: "player-note" }, `The first ${T} of ${episode.length} steps.`) : "";
  parent.append(
    make("article", { class: "player-lane", "aria-label": agent.label },
      make("h3", {}, `${agent.label} `, make("small", {}, `${agent.world}, start ${episode.start}`)),
      make("div", { class: "player-pictures" },
        make("figure", {}, make("figcaption", {}, "true state"), state),
        make("figure", {}, make("figcaption", {}, "what the agent sees"), view, over)),
      facts,
      make("div", { class: "player-panels" }, policy, values), ...(episode.beliefs ? [belief] : []), chart, note, cut));
  policy.style.setProperty("--letters", Math.max(...agent.actions.map((name) => name.length)));
  const mark = playerChart(chart, episode, go);

  return (step) => {
    const t = Math.min(step, T);
    const ended = t === T && T === episode.length;
    state.src = data.pictures[episode.states[t]];
    state.alt = `True state after ${t} actions${episode.state_names ? ": " + episode.state_names[t] : ""}`;
    const seen = episode.views[t];
    view.hidden = seen === null;
    over.hidden = seen !== null;
    if (seen !== null) view.src = data.pictures[seen];
    view.alt = `What the agent sees after ${t} actions`;
    const total = episode.rewards.slice(0, t).reduce((sum, reward) => sum + reward, 0);
    const ending = !ended ? "" : episode.truncated ? "time limit" : "the end";
    facts.replaceChildren(
      ...playerFact("step", t), ...playerFact("action", t ? episode.actions[t - 1] : "–"),
      ...playerFact("reward", t ? numberText(episode.rewards[t - 1]) : "–"),
      ...playerFact("return", numberText(total)), make("b", { class: "player-ending" }, ending));
    playerPolicy(policy, agent, episode, t);
    if (episode.beliefs) playerBelief(belief, data, episode, t);
    playerValues(values, agent, episode, t);
    mark(t);
  };
}

function playerPolicy(place, agent, episode, t) {
  const spreads = agent.kind === "entries" && episode.policy.some((row) => row.some((entry) => entry.mean));
  const title = agent.kind === "values" ? "values Q(h, a)" : `policy π(a; h)${spreads ? ", mean ± spread" : ""}`;
  if (t >= episode.actions.length) return place.replaceChildren(playerTitle(title), playerNothing());
  const row = episode.policy[t];
  let bars;
  if (agent.kind === "entries") {
    bars = row.map(({ shares, mean }, i) => shares
      ? playerBar(agent.actions[i], shares[episode.chosen[t][i]], numberText(shares[episode.chosen[t][i]]), true)
      : playerBar(agent.actions[i], null, mean.map(numberText).join(" ± ")));
  } else {
    const all = episode.policy.flat();
    const [low, high] = agent.kind === "values" ? [Math.min(...all), Math.max(...all)] : [0, 1];
    let listed = row.map((value, a) => a);
    if (listed.length > PLAYER_MOST_BARS) {
      listed = listed.sort((a, b) => row[b] - row[a]).slice(0, PLAYER_MOST_BARS);
      if (!listed.includes(episode.chosen[t])) listed[PLAYER_MOST_BARS - 1] = episode.chosen[t];
    }
    bars = listed.map((a) =>
      playerBar(agent.actions[a], (row[a] - low) / (high - low || 1), numberText(row[a]), a === episode.chosen[t]));
  }
  place.replaceChildren(playerTitle(title, `next: ${episode.actions[t]}`), ...bars);
}

function playerBelief(place, data, episode, t) {
  if (t >= episode.beliefs.length) return place.replaceChildren(playerTitle("belief b(h)"), playerNothing());
  const make = makeElement;
  const states = episode.beliefs[t];
  const cards = states.map(([name, share, picture]) => {
    const image = picture === null ? [] : [make("img", { src: data.pictures[picture], alt: "" })];
    const card = make("figure", { title: `state ${name}` }, ...image,
      make("figcaption", {}, make("b", {}, numberText(share)), /^\d+$/.test(name) && image.length ? "" : ` ${name}`));
    card.classList.toggle("player-true", name === episode.state_names[t]);
    return card;
  });
  const some = episode.possible[t] > states.length ? `the likeliest ${states.length} of ${episode.possible[t]} states` : "";
  place.replaceChildren(playerTitle("belief b(h); the true state is framed", some), make("div", { class: "player-cards" }, ...cards));
}

function playerValues(place, agent, episode, t) {
  const rows = [[`critic ${agent.critic}`, "values"]];
  for (const series of PLAYER_SERIES.slice(1)) {
    const field = series[0];
    const isKnown = (episode[field] || []).some((value) => value !== null);
    if (field === "followed" || isKnown) rows.push([playerLabel(episode, series), field]);
  }
  const text = (field) => {
    const error = (episode[`${field}_error`] || [])[t];
    return numberText(episode[field][t]) + (episode.simulated && error > 0 ? ` ± ${numberText(Number(error.toPrecision(1)))}` : "");
  };
  if (t >= episode.values.length) return place.replaceChildren(playerTitle("values"), playerNothing());
  const lines = rows.map(([label, field]) =>
    makeElement("tr", {}, makeElement("th", { scope: "row" }, label),
      makeElement("td", { "data-field": field }, text(field))));
  place.replaceChildren(playerTitle("values"), makeElement("table", {}, makeElement("tbody", {}, ...lines)));
}

/** The values of the whole episode as a chart; returns the function that marks a step. */
function playerChart(place, episode, go) {
  const colour = (name) => getComputedStyle(place).getPropertyValue(`--${name}`).trim();
  const shown = PLAYER_SERIES.filter(([field]) => (episode[field] || []).some((value) => value !== null));
  const axis = { stroke: () => colour("muted"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false } };
  let at = 0;
  const drawMark = (u) => {
    const x = Math.round(u.valToPos(at, "x", true));
    u.ctx.save();
    u.ctx.strokeStyle = colour("ink");
    u.ctx.lineWidth = devicePixelRatio;
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.restore();
  };
  const options = {
    width: Math.max(place.clientWidth, 200), height: 150, scales: { x: { time: false } },
    axes: [{ ...axis, size: 26, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, { ...axis, size: 44 }], cursor: { drag: { x: false, y: false } },
    legend: { live: false }, hooks: { draw: [drawMark] },
    series: [{ label: "step" }, ...shown.map((series) => [playerLabel(episode, series), series[2], series[3]]).map(([label, name, width]) =>
      ({ label, stroke: () => colour(name), width, points: { show: false }, spanGaps: Boolean(episode.simulated) }))],
  };
  const steps = episode.values.map((_, t) => t);
  const chart = new uPlot(options, [steps, ...shown.map(([field]) => episode[field])], place);
  chart.over.addEventListener("click", () => chart.cursor.idx !== null && go(chart.cursor.idx));
  window.addEventListener("beforeprint", () => chart.setSize({ width: place.closest(".player-two") ? 280 : 600, height: 150 }));
  window.addEventListener("afterprint", () => chart.setSize({ width: place.clientWidth, height: 150 }));
  new ResizeObserver(() => {
    if (place.clientWidth > 0) chart.setSize({ width: place.clientWidth, height: 150 });
  }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
  return (t) => {
    at = t;
    chart.redraw(false);
  };
}

function playerBar(name, share, number, isNext = false) {
  const make = makeElement;
  const named = make("span", { class: "player-name", title: name }, name);
  const value = make("span", { class: "player-value" }, number);
  if (share === null) return make("div", { class: "player-plain" }, named, value);
  const fill = make("span", { class: "player-fill" });
  fill.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  return make("div", { class: isNext ? "player-bar player-next" : "player-bar" },
    named, make("span", { class: "player-track", "aria-hidden": "true" }, fill), value);
}

const playerTitle = (title, aside = "") =>
  makeElement("h4", {}, title, makeElement("span", {}, aside));
const playerNothing = () => makeElement("p", { class: "player-note" }, "the episode has ended");
const playerFact = (name, value) => [
  makeElement("span", {}, name, " ", makeElement("b", { "data-fact": name }, String(value))),
];
