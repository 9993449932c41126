// One conversation: the form that begins it, what is said, and what stands behind it.
import { $, ask, make } from "/page/page.js";

const NAMES = { customer: "Customer", user: "User", tool: "Tool", agent: "Agent", act: "Agent" };
let session = null; // { id, side, turn, tools }
let total = 0;
let service = {};

export function setUpPlay(told) {
  service = told;
  $("env").replaceChildren(...service.environments.map((id) => make("option", { value: id }, id)));
  $("policy").textContent = service.policy || "";
  $("side-user").hidden = !service.as_user;
  $("hidden-choice").hidden = !service.hidden_state;
  for (const radio of document.querySelectorAll("[name=side]")) {
    radio.addEventListener("change", () => sides(chosenSide()));
  }
  sides("agent");
  $("start").addEventListener("submit", (event) => {
    event.preventDefault();
    begin();
  });
  $("say").addEventListener("submit", (event) => {
    event.preventDefault();
    send($("words").value);
  });
  $("words").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send($("words").value);
    }
  });
  $("tool").addEventListener("change", showTool);
  $("call").addEventListener("submit", (event) => {
    event.preventDefault();
    callTool();
  });
  $("again").addEventListener("click", end);
}

const chosenSide = () => document.querySelector("[name=side]:checked").value;

function sides(side) {
  const shown = session ? session.side : side;
  for (const one of document.querySelectorAll(".agent-only")) one.hidden = shown !== "agent";
  for (const one of document.querySelectorAll(".user-only")) one.hidden = shown !== "user";
  $("env").disabled = side === "user";
  if (side === "user") $("env").selectedIndex = 0;
  $("hidden-choice").hidden = !service.hidden_state || side === "user";
}

async function begin() {
  const side = chosenSide();
  const asked = { side, options: {} };
  if ($("persona").value) asked.options.persona = $("persona").value;
  if (side === "agent") {
    asked.env_id = $("env").value;
    asked.keywords = { observation: "dict", action: "text", reward: $("reward").value };
    if ($("show-hidden").checked) asked.keywords.privileged = true;
    if ($("seed").value) asked.seed = Number($("seed").value);
    if (asked.env_id.includes("Scenarios")) delete asked.keywords.action;
  }
  $("begin").disabled = true;
  const found = await ask("/v1/env/reset", asked);
  $("begin").disabled = false;
  if (found === null) return;
  session = { id: found.session_id, side, turn: 0, tools: [] };
  total = 0;
  for (const id of ["log", "rewards", "ledger"]) $(id).replaceChildren();
  $("outcome").textContent = "";
  $("outcome").className = "";
  $("hidden-part").hidden = true;
  $("start").hidden = true;
  $("game").hidden = false;
  lock(false);
  sides(side);
  $("talk-title").textContent = side === "agent" ? "You are the agent" : "You are the customer";
  if (side === "agent") beginAsAgent(found);
  else $("role").textContent = found.role;
  $("words").placeholder = side === "agent" ? "Answer the customer" : "Say what you want, in your own words";
  $("words").focus();
}

function beginAsAgent(found) {
  const seen = found.observation || {};
  $("rules").textContent = seen.policy || found.system_prompt || "";
  session.tools = parsed(seen.tools, []).map((one) => one.function);
  $("tool").replaceChildren(
    ...session.tools.map((one) => make("option", { value: one.name }, one.name)),
  );
  $("tools").hidden = !session.tools.length;
  showTool();
  showStep(found);
}

function showStep(found) {
  for (const { who, text } of found.said) {
    line(who, NAMES[who] || who, text, who === "agent", who === "agent" ? found.calls : []);
  }
  const info = found.info || {};
  const seen = found.observation || {};
  if (seen.view) $("sight").textContent = JSON.stringify(parsed(seen.view, seen.view), null, 1);
  for (const call of found.calls) note(found.turn, `call ${called(call)}`);
  if (info.tool_results) note(found.turn, `result ${info.tool_results}`);
  for (const act of parsed(info.user_acts, [])) note(found.turn, `customer: ${Object.values(act).join(" ")}`);
  if (info.errors > (session.errors || 0)) note(found.turn, `error ${info.errors} of the agent`, "bad");
  session.errors = info.errors;
  for (const one of (info.violations || "").split(" ").filter(Boolean)) {
    if (!(session.violations || []).includes(one)) note(found.turn, `broken: ${one}`, "bad");
  }
  session.violations = (info.violations || "").split(" ");
  if (found.turn) rewarded(found.turn, found.reward, parsed(info.reward_terms, {}));
  if (info.privileged) {
    $("hidden-part").hidden = false;
    $("hidden-state").textContent = JSON.stringify(parsed(info.privileged, info.privileged), null, 1);
    $("hidden-ledger").textContent = (found.ledger || []).join("\n") || "nothing yet";
  }
  if (found.terminated || found.truncated) {
    over(info.success, info.failure_reason, `Return ${short(found.return)} after ${found.turn} steps.`);
  }
}

function showAnswer(found) {
  for (const call of found.tool_calls) note(found.turn, `call ${called(call)}`);
  for (const result of found.tool_results) note(found.turn, `result ${result}`);
  if (found.text) line("agent", "Agent", found.text, false);
  if (found.ended) {
    const terms = parsed(found.reward_terms, {});
    rewarded(found.turn, terms.graded ?? terms.success ?? 0, terms);
    over(found.success, found.reason, `${found.turn} messages of yours.`);
  }
}

async function send(text) {
  if (!session || session.waiting || session.over || !text.trim()) return;
  const turn = session.turn;
  lock(true);
  if (session.side === "user") line("user", "You", text, true);
  const found = await ask("/v1/env/step", { session_id: session.id, action: text, turn });
  lock(false);
  if (found === null) return;
  $("words").value = "";
  session.turn = found.turn;
  if (session.side === "agent") showStep(found);
  else showAnswer(found);
  if (!session.over) $("words").focus();
}

function lock(waiting) {
  session.waiting = waiting;
  $("log").setAttribute("aria-busy", String(waiting));
  for (const id of ["send", "run"]) $(id).disabled = waiting || Boolean(session.over);
  $("words").readOnly = Boolean(session.over);
}

function over(success, reason, told) {
  session.over = true;
  lock(false);
  $("outcome").textContent = (success ? "Success. " : `No success: ${reason || "it is over"}. `) + told;
  $("outcome").className = success ? "good" : "bad";
  const item = make("li", { class: "line end" }, "The conversation is over.");
  $("log").append(item);
  $("log").scrollTop = $("log").scrollHeight;
  $("again").focus();
}

async function end() {
  const old = session;
  session = null;
  $("game").hidden = true;
  $("start").hidden = false;
  sides(chosenSide());
  $("begin").focus();
  if (old) await ask("/v1/env/close", { session_id: old.id });
}

function showTool() {
  const tool = session && session.tools.find((one) => one.name === $("tool").value);
  $("tool-about").textContent = tool ? tool.description || "" : "";
  const wanted = tool ? tool.parameters.properties || {} : {};
  $("arguments").replaceChildren(
    ...Object.entries(wanted).map(([name, schema]) => {
      const field = schema.enum
        ? make("select", { name }, ...schema.enum.map((one) => make("option", { value: one }, String(one))))
        : make("input", { name, autocomplete: "off" });
      const about = schema.description ? make("span", { class: "note" }, schema.description) : "";
      return make("label", {}, name, field, about);
    }),
  );
}

function callTool() {
  const tool = session.tools.find((one) => one.name === $("tool").value);
  const given = {};
  for (const field of $("arguments").querySelectorAll("input, select")) {
    const kind = tool.parameters.properties[field.name].type;
    if (field.value === "" && !(tool.parameters.required || []).includes(field.name)) continue;
    given[field.name] = ["integer", "number"].includes(kind) ? Number(field.value)
      : kind === "boolean" ? field.value === "true" : field.value;
  }
  send(`<tool_call>${JSON.stringify({ name: tool.name, arguments: given })}</tool_call>`);
}

function line(who, name, text, mine, calls = []) {
  const call = calls.length > 0 && text.trimStart().startsWith("<tool_call>");
  const kinds = ["line", mine ? "mine" : "", who === "tool" ? "tool" : "", call ? "call" : ""];
  const item = make("li", { class: kinds.join(" ") });
  const shown = call ? calls.map(called).join("\n") : text || "(nothing)";
  item.append(make("span", { class: "who" }, mine ? (call ? "You call" : "You") : name), shown);
  $("log").append(item);
  $("log").scrollTop = $("log").scrollHeight;
}

function note(turn, text, kind = "") {
  const told = make("span", {}, text);
  const item = make("li", { class: kind }, make("span", { class: "turn" }, String(turn)), told);
  $("ledger").append(item);
  $("ledger").scrollTop = $("ledger").scrollHeight;
}

function rewarded(turn, reward, terms) {
  total += reward || 0;
  const told = Object.entries(terms).map(([name, value]) => `${name} ${short(value)}`).join(", ");
  $("rewards").prepend(make("tr", {}, make("td", {}, String(turn)), make("td", {}, short(reward)), make("td", {}, told)));
}

const called = (call) =>
  `${call.name}(${Object.entries(call.arguments).map(([k, v]) => `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`).join(", ")})`;
const short = (number) => String(Math.round((number || 0) * 1000) / 1000);

function parsed(text, otherwise) {
  try {
    return text ? JSON.parse(text) : otherwise;
  } catch {
    return otherwise;
  }
}
