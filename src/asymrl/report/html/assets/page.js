"use strict";

const updates = new Map(); // by the name of a section: a function that takes new data, where the section has one

// Calls `start` with the element of a section and its data. What it returns, if anything, takes new data later.
function startSection(start, name) {
  const data = document.getElementById("data-" + name);
  const update = start(document.getElementById("section-" + name), data === null ? null : JSON.parse(data.textContent));
  if (update) updates.set(name, update);
}
