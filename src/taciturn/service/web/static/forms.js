// The forms: their input becomes a request to the API; errors are shown next to their field.

import { Problem, request } from "./api.js";

export function clearErrors(root) {
  for (const spot of root.querySelectorAll("[data-error]")) spot.textContent = "";
  for (const input of root.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

export function showError(root, problem) {
  const field = (problem.field || "").split(/[.[]/)[0];
  const spots = [...root.querySelectorAll("[data-error]")];
  const spot = spots.find((one) => one.dataset.error === field) ?? spots.find((one) => one.dataset.error === "") ?? spots[0];
  const input = spot.dataset.error ? root.querySelector(`[name="${spot.dataset.error}"]`) : null;
  spot.textContent = problem.message;
  if (input) {
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }
}

// Run `work` when a form is submitted; it cannot be submitted again until that has finished.
export function onSubmit(form, work) {
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("[type=submit]");
    if (button.getAttribute("aria-disabled") === "true") return;
    clearErrors(form);
    button.setAttribute("aria-disabled", "true");
    try {
      await work(new FormData(form));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      showError(form, error);
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
}

// The value of a line name=value: a number, true or false, nothing where it is missing, or words.
function readValue(text) {
  if (text === "") return null;
  if (text === "true" || text === "false") return text === "true";
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

// A context from what was typed: JSON, lines of name=value, numbers, or a text.
export function readContext(text) {
  const given = text.trim();
  if (!given) throw new Problem(422, "A context is needed: lines of name=value, or JSON.", "context");
  if (/^[[{"]/.test(given)) {
    try {
      return JSON.parse(given);
    } catch {
      throw new Problem(422, "This starts like JSON, but is not valid JSON.", "context");
    }
  }
  const lines = given.split(/[\n;]/).map((line) => line.trim()).filter(Boolean);
  if (lines.every((line) => !line.includes("="))) {
    const numbers = given.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (numbers.every(Number.isFinite)) return numbers;
    if (/\s/.test(given)) return given;
  }
  const context = {};
  for (const line of lines) {
    const cut = line.indexOf("=");
    const name = line.slice(0, cut).trim();
    if (cut < 1 || !name) throw new Problem(422, `“${line}” is not name=value; give several words, or JSON.`, "context");
    context[name] = readValue(line.slice(cut + 1).trim());
  }
  return context;
}

export async function create(data) {
  const arms = data.get("arms").split("\n").map((line) => line.trim()).filter(Boolean);
  const name = data.get("name").trim();
  if (!name) throw new Problem(422, "A name is needed.", "name");
  if (arms.length < 2) throw new Problem(422, "At least two arms are needed, one per line.", "arms");
  let params = {};
  if (data.get("params").trim()) {
    try {
      params = JSON.parse(data.get("params"));
    } catch {
      throw new Problem(422, 'This is not JSON; {"seed": 0} is.', "params");
    }
  }
  if (data.get("one_right_arm") === "no") params = { one_right_arm: false, ...params };
  await request("POST", "/v1/agents", { name, kind: data.get("kind"), arms, params });
  return name;
}
