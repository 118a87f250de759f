// The form of the router's page: sends a message, shows its arm and the reasons, and sends thumbs.

import { Problem, request } from "/web/static/api.js";
import { clearErrors, onSubmit, showError } from "/web/static/forms.js";

const $ = (id) => document.getElementById(id);

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text; // what people have written is text, never HTML
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const said = (reason) =>
  reason.outcome === "example" ? `an example of ${reason.arm}` : `sent to ${reason.arm}, ${reason.outcome}`;

function show(answer) {
  const list = element("ul", "", { class: "neighbors" });
  for (const reason of answer.because) {
    const item = element("li", `“${reason.text ?? "a text that is not held any more"}” `);
    item.append(element("span", said(reason), { class: "hint" }));
    list.append(item);
  }
  const buttons = element("p", "", { class: "feedback" });
  for (const [rating, label, kind] of [["up", "Thumbs up", "good"], ["down", "Thumbs down", "bad"]]) {
    buttons.append(element("button", label, { type: "button", class: kind, "data-thumb": rating, "data-id": answer.id }));
  }
  const lead = answer.because.length
    ? "Because of:"
    : "No earlier message that is near speaks for an arm yet, so it is tried.";
  const parts = [element("h3", `Sent to ${answer.arm}`, { id: "arm" })];
  if (answer.would) parts.push(element("p", `Observing: ${answer.would} would have been chosen.`));
  const problem = element("p", "", { class: "error", "data-error": "" });
  parts.push(element("p", lead), list, buttons, problem, element("p", "", { class: "hint", id: "outcome" }));
  $("routed").replaceChildren(...parts);
  $("routed").hidden = false;
  $("routed").focus({ preventScroll: true });
  $("status").textContent = `Sent to ${answer.arm}`;
}

onSubmit($("ask"), async (data) => {
  if (!data.get("text").trim()) throw new Problem(422, "Write a message first.", "text");
  show(await request("POST", "/v1/route", { text: data.get("text") }));
});

$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("ask").requestSubmit();
});

$("routed").addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-thumb]");
  if (!button) return;
  clearErrors($("routed"));
  try {
    const answer = await request("POST", "/v1/feedback", { id: Number(button.dataset.id), rating: button.dataset.thumb });
    for (const one of $("routed").querySelectorAll("button[data-thumb]")) {
      one.setAttribute("aria-pressed", String(one === button));
    }
    $("outcome").textContent = `Thanks: decision ${answer.id} is ${answer.reward ? "right" : "wrong"}, and that is learned.`;
    $("status").textContent = $("outcome").textContent;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    showError($("routed"), problem);
  }
});
