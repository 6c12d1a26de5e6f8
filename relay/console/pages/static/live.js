// Live pages. The server says when to fetch the part that follows the outbox; without its stream the part is polled.
"use strict";

const live = { stream: null, opened: 0, heard: 0 };
const SILENCE = 30_000; // milliseconds; a stream says something every ten seconds, unless a proxy holds it back
const AGAIN = 60_000; // milliseconds until a stream that was refused is asked for again

function followed() {
  return document.querySelector("[data-live]");
}

function state(text) {
  const place = document.getElementById("live-state");
  if (place && place.textContent !== text) place.textContent = text;
}

function wanted() {
  const paused = document.getElementById("live");
  return followed() && !document.hidden && !(paused && !paused.checked);
}

// A stream is open while the page is looked at: browsers open six connections to a server, and a stream takes one.
function follow() {
  if (!wanted()) {
    live.stream?.close();
    live.stream = null;
    state("");
    return;
  }
  if (live.stream && live.stream.readyState !== EventSource.CLOSED) return;
  const stream = new EventSource(`/live?page=${followed().dataset.live}`);
  live.stream = stream;
  stream.addEventListener("open", () => {
    live.heard = Date.now();
    if (live.opened++) htmx.trigger(followed(), "live"); // what happened meanwhile
  });
  stream.addEventListener("refresh", () => {
    live.heard = Date.now();
    htmx.trigger(followed(), "live");
  });
  stream.addEventListener("failed", (event) => {
    live.heard = Date.now();
    state(`Not up to date: ${JSON.parse(event.data).detail}`);
  });
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN);
  });
}

function streams() {
  return live.stream?.readyState === EventSource.OPEN && Date.now() - live.heard < SILENCE;
}

addEventListener("DOMContentLoaded", () => {
  follow();
  document.getElementById("live")?.addEventListener("change", follow);
});
addEventListener("visibilitychange", follow);
addEventListener("pagehide", () => live.stream?.close());
addEventListener("pageshow", (event) => { if (event.persisted) follow(); });

// Nothing moves that cannot be stopped, and nobody pays for a page that is not looked at.
addEventListener("htmx:beforeRequest", (event) => {
  const { verb, triggeringEvent } = event.detail.requestConfig;
  const paused = document.getElementById("live");
  const polls = !triggeringEvent && event.target === followed() && streams();
  if (verb === "get" && (document.hidden || polls || (paused && !paused.checked))) event.preventDefault();
});
addEventListener("htmx:afterSwap", (event) => { if (event.target === followed()) state(""); });
addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  state(status === 401 ? "Not up to date: you are logged out; load the page again." : `Not up to date: the console answers ${status}.`);
});
addEventListener("htmx:sendError", () => state("Not up to date: the console does not answer."));
