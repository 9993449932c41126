// Views, the key, and how the page asks the service; texts only ever become text nodes.
import { setUpPlay } from "/page/play.js";
import { setUpData, setUpReports } from "/page/browse.js";

export const $ = (id) => document.getElementById(id);
const KEY = "convgym.key";
let key = sessionStorage.getItem(KEY) || "";

export function make(kind, attributes = {}, ...children) {
  const found = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") found.className = value;
    else if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
}

export function problem(text) {
  $("problem").textContent = text || "";
  $("problem").hidden = !text;
}

// What the service answers; null where it refuses, and then the page says why.
export async function ask(path, body) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = { headers };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  try {
    const answer = await fetch(path, options);
    const html = (answer.headers.get("Content-Type") || "").startsWith("text/html");
    const found = html ? await answer.text() : await answer.json();
    if (answer.ok) {
      problem("");
      return found;
    }
    problem(found.error ? found.error.message : `The service answered ${answer.status}.`);
    if (answer.status === 401) {
      sessionStorage.removeItem(KEY);
      askForKey();
    }
  } catch (error) {
    problem("The service does not answer. Is it still running?");
  }
  return null;
}

const views = ["play", "data", "reports"];

function show(view, focus) {
  for (const one of views) {
    const tab = $(`tab-${one}`);
    tab.setAttribute("aria-selected", String(one === view));
    tab.tabIndex = one === view ? 0 : -1;
    $(`view-${one}`).hidden = one !== view;
    if (one === view && focus) tab.focus();
  }
  $("view-" + view).dispatchEvent(new Event("shown"));
}

function setUpTabs() {
  views.forEach((view, place) => {
    const tab = $(`tab-${view}`);
    tab.addEventListener("click", () => show(view, true));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) show(views[(place + step + views.length) % views.length], true);
      else if (event.key === "Home") show(views[0], true);
      else if (event.key === "End") show(views[views.length - 1], true);
      else return;
      event.preventDefault();
    });
  });
}

function askForKey() {
  for (const view of views) $(`view-${view}`).hidden = true;
  document.querySelector("header [role=tablist]").hidden = true;
  $("key-form").hidden = false;
  $("key").focus();
}

async function begin() {
  const service = await ask("/v1/service");
  if (service === null) return;
  $("key-form").hidden = true;
  document.querySelector("header [role=tablist]").hidden = false;
  setUpPlay(service);
  setUpData(service);
  setUpReports(service);
  setUpTabs();
  show("play");
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  $("key").value = "";
  sessionStorage.setItem(KEY, key);
  begin();
});

const health = await ask("/healthz");
if (health !== null) {
  if (health.key_needed && !key) askForKey();
  else begin();
}
