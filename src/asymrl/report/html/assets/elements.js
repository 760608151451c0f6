// What the scripts of several sections share.
"use strict";

/** A number with three decimals and a typographic minus; a dash for one that is not known. */
function numberText(value) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(3).replace(/^-(0\.000)$/, "$1");
  return (Number.isInteger(value) ? String(value) : text).replace("-", "−");
}

/** An element with attributes and children; text stays text. */
function makeElement(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
