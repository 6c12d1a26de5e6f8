// Live pages: a part is asked for again while it is looked at, and replaced only when the console has another one.
"use strict";

const LONGEST = 60_000; // milliseconds between two polls of a console that is slow or does not answer
const SHARE = 4; // what took a second is asked for again after four at the earliest
const live = { timer: 0, began: 0, failures: 0, polls: 0, kept: false, read: Date.now() };

function followed() {
  return document.querySelector("[data-live]");
}

function stopped() {
  const control = document.getElementById("live");
  return document.hidden || (control && !control.checked);
}

function state(text) {
  const place = document.getElementById("live-state");
  if (place && place.textContent !== text) place.textContent = text;
}

function held(part) {
  const selection = getSelection();
  return part.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(part, true));
}

function failure(xhr) {
  if (!xhr.status) return "the console does not answer";
  if (xhr.status === 401) return "you are logged out; load the page again";
  try {
    return JSON.parse(xhr.responseText).detail;
  } catch {
    return `the console answers ${xhr.status}`;
  }
}

function poll() {
  clearTimeout(live.timer);
  const part = followed();
  if (stopped()) state("");
  if (!part || stopped() || part.querySelector("[data-done]")) return;
  live.began = Date.now();
  htmx.trigger(part, "live");
}

function later() {
  const pace = Number(followed().dataset.live) * 1000 * 2 ** live.failures;
  clearTimeout(live.timer);
  live.timer = setTimeout(poll, Math.min(Math.max(pace, (Date.now() - live.began) * SHARE), LONGEST));
}

function age() {
  const place = document.getElementById("live-age");
  const seconds = Math.round((Date.now() - live.read) / 1000);
  if (place) place.textContent = `read ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} ago`;
}

setInterval(age, 1000);
addEventListener("DOMContentLoaded", () => {
  if (!followed()) return;
  live.began = Date.now();
  later();
  document.getElementById("live")?.addEventListener("change", poll);
});
addEventListener("visibilitychange", poll);
addEventListener("pageshow", (event) => { if (event.persisted) poll(); });

addEventListener("htmx:configRequest", (event) => {
  event.detail.timeout = 30_000;
  if (event.target === followed()) event.detail.headers["If-None-Match"] = event.target.dataset.etag;
});
// Nothing moves that cannot be stopped, and no page that is not looked at asks for anything.
addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig.verb === "get" && stopped()) event.preventDefault();
});
addEventListener("htmx:beforeSwap", (event) => {
  // What has the focus or a selection stays as it is; the next poll asks for the same once more.
  const { xhr, shouldSwap } = event.detail;
  live.kept = shouldSwap && xhr.status !== 304 && event.target === followed() && held(event.target);
  if (xhr.status === 304 || live.kept) event.detail.shouldSwap = false;
});
addEventListener("htmx:afterRequest", (event) => {
  const { xhr, successful } = event.detail;
  if (event.target !== followed()) return;
  live.polls++;
  if (successful && !live.kept) live.read = live.began;
  live.failures = successful ? 0 : Math.min(live.failures + 1, 5);
  if (xhr.status === 200 && !live.kept) event.target.dataset.etag = xhr.getResponseHeader("ETag");
  if (!successful) state(`Not up to date: ${failure(xhr)}.`);
  else state(live.kept ? "There is news; it is shown when nothing here has the focus or is selected." : "");
  live.kept = false;
  later();
});
