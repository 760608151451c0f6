// Shows where V(s) misjudges, history by history. The data are those of asymrl.report.html.theory_map.
"use strict";

const MAP_ORDERS = [
  ["what matters most first", () => 0],
  ["too high first", (a, b) => b.bias - a.bias],
  ["too low first", (a, b) => a.bias - b.bias],
  ["in the order of time", (a, b) => a.actions - b.actions],
];

/** Fills `element`, the section, with a card for each history. */
function startTheoryMap(element, data) {
  const place = element.querySelector(".theory-map");
  if (!data.histories.length) {
    place.append(makeElement("p", {}, "V(s) is right after every history that was followed."));
    return;
  }
  const largest = Math.max(...data.histories.map((history) => Math.abs(history.bias)));
  const order = makeElement("select", { id: "map-order" }, ...MAP_ORDERS.map(([name], i) => makeElement("option", { value: i }, name)));
  const cards = makeElement("div", { class: "map-cards" });
  const some = data.misjudged > data.histories.length ? `${data.histories.length} of ${data.misjudged} histories` : "";
  place.append(makeElement("p", { class: "map-order" }, makeElement("label", { for: "map-order" }, "Order "), order, " ", some), cards);
  const show = () =>
    cards.replaceChildren(...[...data.histories].sort(MAP_ORDERS[order.value][1]).map((each) => mapCard(each, data, largest)));
  order.addEventListener("change", show);
  show();
}

function mapCard(history, data, largest) {
  const make = makeElement;
  const high = history.bias > 0;
  const often = data.visits ? `${numberText(history.probability)} visits` : `probability ${numberText(history.probability)}`;
  const steps = data.visits ? "" : `${history.actions} actions, `;
  const bar = make("span", { class: "map-bar", "aria-hidden": "true" });
  bar.style.width = `${(50 * Math.abs(history.bias)) / largest}%`;
  bar.style[high ? "left" : "right"] = "50%";
  const states = history.states.map(([name, belief, V_s, V_hs, picture]) =>
    make("tr", { title: `state ${name}` },
      make("td", {}, make("img", { src: data.pictures[picture], alt: `state ${name}` })),
      ...[belief, V_s, V_hs].map((value) => make("td", { class: "n" }, numberText(value)))));
  const more = history.possible - history.states.length;
  const header = ["state", "b(h)", "V(s)", "V(h, s)"].map((name, i) => make("th", { scope: "col", class: i ? "n" : "" }, name));
  return make("article", { class: high ? "map-card map-high" : "map-card map-low" },
    make("div", { class: "map-head" },
      make("img", { class: "map-view", src: data.pictures[history.view], alt: "what the agent sees last" }),
      make("div", {},
        make("b", { class: "map-bias" }, `${high ? "+" : ""}${numberText(history.bias)}`),
        make("p", {}, "V(s) says ", make("b", {}, numberText(history.mean)), ", V(h) is ", make("b", {}, numberText(history.V_h))),
        make("p", { class: "map-muted" }, `${steps}${often}`))),
    make("div", { class: "map-track" }, bar),
    make("p", { class: "map-words", title: history.words }, history.words),
    make("table", {}, make("thead", {}, make("tr", {}, ...header)), make("tbody", {}, ...states)),
    ...(more > 0 ? [make("p", { class: "map-muted" }, `and ${more} more states`)] : []));
}
