// Recorded conversations, and reports.
import { $, ask, make } from "/page/page.js";

const COUNT = 20;
let dataset = null;
let start = 0;
let total = 0;

export function setUpData(service) {
  const note = $("data-note");
  if (!service.browse) {
    note.textContent = "This service shows no datasets.";
    note.hidden = false;
    return;
  }
  let loaded = false;
  $("view-data").addEventListener("shown", async () => {
    if (loaded) return;
    loaded = true;
    const found = await ask("/v1/datasets");
    if (found === null) return;
    note.hidden = found.datasets.length > 0;
    note.textContent = "There are no local datasets yet; `convgym data list` says which can be had.";
    $("datasets").replaceChildren(...found.datasets.map((one) => make("li", {}, chooser(one))));
  });
  $("before").addEventListener("click", () => page(start - COUNT));
  $("after").addEventListener("click", () => page(start + COUNT));
}

function chooser(one) {
  const button = make("button", { type: "button", onclick: () => open(one, button) }, one.id,
    make("small", {}, `${one.episodes} episodes, ${one.steps} steps`));
  return button;
}

async function open(one, button) {
  dataset = one;
  mark("datasets", button);
  $("dataset-title").textContent = one.id;
  $("dataset-about").textContent = one.description;
  $("episode-part").hidden = true;
  await page(0);
}

async function page(from) {
  const asked = new URLSearchParams({ dataset: dataset.id, start: Math.max(0, from), count: COUNT });
  const found = await ask(`/v1/episodes?${asked}`);
  if (found === null) return;
  start = found.start;
  total = found.total;
  $("episodes").replaceChildren(...found.episodes.map(row));
  $("which").textContent = `${start + 1} to ${start + found.episodes.length} of ${total}`;
  $("before").disabled = start === 0;
  $("after").disabled = start + COUNT >= total;
  $("episodes-part").hidden = false;
}

function row(one) {
  const button = make("button", { type: "button", "aria-label": `Open episode ${one.index}`,
    onclick: () => read(one.index) }, String(one.index));
  const success = one.success === null ? "" : one.success ? "yes" : "no";
  return make("tr", {}, make("td", {}, button), make("td", {}, one.task_id || ""),
    make("td", {}, String(one.steps)), make("td", {}, short(one.return)), make("td", {}, success));
}

async function read(index) {
  const asked = new URLSearchParams({ dataset: dataset.id, index });
  const found = await ask(`/v1/episode?${asked}`);
  if (found === null) return;
  $("episode-title").textContent = `Episode ${index}: return ${short(found.return)}`;
  const lines = [];
  found.steps.forEach((step, t) => {
    if (t) lines.push(...acted(step, t));
    lines.push(...brought(step));
  });
  const last = found.steps[found.steps.length - 1];
  lines.push(make("li", { class: "line end" }, last.truncated ? "Cut off." : "The end."));
  $("episode").replaceChildren(...lines);
  $("episode-part").hidden = false;
  $("episode-title").focus();
}

function acted(step, t) {
  const gain = [`reward ${short(step.reward)}`];
  const chance = step.infos.propensity;
  if (typeof chance === "number") gain.push(`probability ${short(chance)}`);
  const call = String(step.action).includes("<tool_call>") ? "call" : "";
  return [make("li", { class: `line mine ${call}` }, make("span", { class: "who" }, `Agent, step ${t}`),
    String(step.action), make("span", { class: "who gain" }, gain.join(", ")))];
}

function brought(step) {
  const lines = [];
  const { tool_results: results, message, numbers, ...others } = step.seen;
  if (results) lines.push(make("li", { class: "line tool" }, make("span", { class: "who" }, "Tool"), results));
  const said = message || Object.values(others).join("\n");
  const who = results === undefined ? "What came back" : "Customer";
  if (said) lines.push(make("li", { class: "line" }, make("span", { class: "who" }, who), said));
  else if (numbers) lines.push(make("li", { class: "gain" }, `(${numbers} numbers)`));
  return lines;
}

export function setUpReports(service) {
  const note = $("reports-note");
  note.textContent = "No reports are shown; start the service with --reports and a folder of them.";
  note.hidden = service.reports;
  if (!service.reports) return;
  $("view-reports").addEventListener("shown", async () => {
    const found = await ask("/v1/reports");
    if (found === null) return;
    note.textContent = "The folder holds no reports yet.";
    note.hidden = found.reports.length > 0;
    $("reports").replaceChildren(...found.reports.map((one) => {
      const button = make("button", { type: "button", onclick: () => openReport(one.name, button) },
        one.name, make("small", {}, `${Math.ceil(one.bytes / 1024)} KiB`));
      return make("li", {}, button);
    }));
  });
}

async function openReport(name, button) {
  const text = await ask(`/v1/report?${new URLSearchParams({ name })}`);
  if (text === null) return;
  mark("reports", button);
  const frame = $("report");
  frame.title = `Report ${name}`;
  frame.srcdoc = text;
  frame.hidden = false;
  frame.scrollIntoView({ block: "nearest" });
}

function mark(list, button) {
  for (const one of $(list).querySelectorAll("button")) one.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
}

const short = (number) => String(Math.round((number || 0) * 1000) / 1000);
