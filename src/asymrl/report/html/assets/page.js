"use strict";

// Calls `start` with the element of a section and its data.
function startSection(start, name) {
  const data = document.getElementById("data-" + name);
  start(document.getElementById("section-" + name), data === null ? null : JSON.parse(data.textContent));
}
