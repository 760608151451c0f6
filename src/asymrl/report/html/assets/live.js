"use strict";

// Follows a training: asks the server for what is new and gives each section its part of it.
function startLive(element, { version, seconds, what }) {
  const state = element.querySelector(".live");
  const html = new Map();
  let known = version, changed = null;

  function say(text, ended = false) {
    state.textContent = text;
    state.classList.toggle("ended", ended);
  }

  function replace(section, text) {
    const open = [...section.querySelectorAll("details")].map((one) => one.open);
    const made = document.createElement("template");
    made.innerHTML = text; // our own markup, in which the texts of others are escaped
    section.replaceChildren(section.querySelector("h2"), made.content);
    section.querySelectorAll("details").forEach((one, i) => { one.open = open[i] === true; });
  }

  function take({ subtitle, sections, what: now }) {
    what = now;
    const there = [...document.querySelectorAll("main > section")].map((one) => one.id).filter((id) => id !== element.id);
    if (there.join() !== sections.map(({ name }) => "section-" + name).join()) {
      location.reload();
      return;
    }
    document.querySelector(".subtitle").textContent = subtitle;
    for (const { name, html: text, data } of sections) {
      const update = updates.get(name);
      if (update) update(data);
      else if (html.get(name) !== text) replace(document.getElementById("section-" + name), text);
      html.set(name, text);
    }
  }

  async function ask() {
    try {
      // The browser's cache handles 304: a conditional header of our own would make each of them a failed request.
      const answer = await fetch("data.json", { cache: "no-cache" });
      const newest = answer.headers.get("ETag");
      if (answer.ok && newest !== known) {
        take(await answer.json());
        known = newest;
        changed = new Date();
      }
      say(what + (changed ? ", last change at " + changed.toLocaleTimeString() : "") + ".");
    } catch {
      say("asymrl watch has ended; this is what it showed last.", true);
    }
    setTimeout(ask, 1000 * seconds);
  }

  setTimeout(ask, 1000 * seconds);
}
