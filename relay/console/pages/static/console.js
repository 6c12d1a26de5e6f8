// What the pages do in a browser beyond plain HTML: plots and keys; live.js has the live pages. All of it is optional.
"use strict";

const plots = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function local() {
  return localStorage.getItem("clock") === "local";
}

function clock(time) {
  const moment = new Date(time);
  if (local()) moment.setMinutes(moment.getMinutes() - moment.getTimezoneOffset());
  return moment.toISOString().slice(0, 19).replace("T", " ");
}

function show(root) {
  for (const time of root.querySelectorAll(".time [datetime]")) {
    if (time.dateTime) time.textContent = clock(time.dateTime);
  }
  draw(root);
}

function options(width, failures) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: 180,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    tzDate: (seconds) => (local() ? new Date(seconds * 1000) : uPlot.tzDate(new Date(seconds * 1000), "UTC")),
    scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [{ ...axis, size: 24, values: (_, times) => times.map((time) => clock(time * 1000).slice(11, 16)) },
      { ...axis, size: 50, values: (_, counts) => counts.map((count) => count.toLocaleString("en")) }],
    series: [{}, { stroke: colour("--accent"), fill: colour("--accent-soft"), width: 2, points: { show: false } },
      ...(failures ? [{ stroke: colour("--bad"), width: 2, dash: [6, 3], points: { show: false } }] : [])],
  };
}

function draw(root) {
  for (const place of root.querySelectorAll("[data-plot]")) {
    const { times, events, failures } = JSON.parse(place.dataset.plot);
    plots.get(place.id)?.destroy();
    place.replaceChildren();
    plots.set(place.id, new uPlot(options(place.clientWidth, failures), [times, events, ...(failures ? [failures] : [])], place));
  }
}

addEventListener("DOMContentLoaded", () => {
  const choice = document.createElement("button");
  choice.type = "button";
  document.getElementById("clock").replaceWith(choice);
  const chosen = () => {
    choice.textContent = local() ? `Times are local, ${Intl.DateTimeFormat().resolvedOptions().timeZone}` : "Times are UTC";
    show(document);
  };
  choice.addEventListener("click", () => {
    localStorage.setItem("clock", local() ? "UTC" : "local");
    chosen();
  });
  chosen();
  // On a phone the list of pages is wider than the screen.
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
});
addEventListener("resize", () => draw(document));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(document));
addEventListener("htmx:afterSwap", (event) => show(event.target));

addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CSRF-Token"] = document.querySelector("meta[name=csrf-token]").content;
});

let after = "";
addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (field) field.focus();
    else location.assign("/events");
    event.preventDefault();
  } else if (after === "g") {
    document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
  }
  after = event.key;
});
