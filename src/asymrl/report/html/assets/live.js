"use strict";

// A page that follows a training: it loads itself again when the server has a newer one. What was unfolded stays so.
function startLive(element, { version, seconds, what }) {
  const text = element.querySelector(".live"), folded = [...document.querySelectorAll("details")];
  const open = JSON.parse(sessionStorage.getItem("unfolded") || "[]");
  folded.forEach((one, i) => { one.open = one.open || open.includes(i); });
  text.textContent = what + ", as of " + new Date().toLocaleTimeString() + ".";

  async function ask() {
    try {
      const answer = await fetch("/", { cache: "no-cache" });
      if (answer.ok && answer.headers.get("ETag") !== version) {
        sessionStorage.setItem("unfolded", JSON.stringify(folded.flatMap((one, i) => (one.open ? [i] : []))));
        location.reload();
        return;
      }
      text.classList.remove("ended");
    } catch {
      text.textContent = "asymrl watch has ended; this is what it showed last.";
      text.classList.add("ended");
    }
    setTimeout(ask, 1000 * seconds);
  }

  setTimeout(ask, 1000 * seconds);
}
