// Keeps the page up to date: loads the parts of the view, and replaces those that have changed.

import { enableActions, explainChoice } from "./actions.js";
import { key, Problem, request } from "./api.js";
import { clearErrors, create, onSubmit, readContext, showError } from "./forms.js";

const INTERVAL = 2000, MAX_INTERVAL = 30000, ANNOUNCE_EVERY = 20000; // milliseconds
const body = document.body;
const { source, agent } = body.dataset;
const keyed = body.dataset.keyed === "yes";
const $ = (id) => document.getElementById(id);
const shown = new WeakMap();
let timer = 0, failures = 0, announced = Date.now(), loading = null;

document.documentElement.classList.add("scripts");

function announce(text) {
  $("status").textContent = text;
  announced = Date.now();
}

// Replace the content of an element by HTML of this service; keep open details, scroll positions and the focus.
function put(element, html) {
  if (shown.get(element) === html) return;
  const parsed = document.createElement("template");
  parsed.innerHTML = html;
  shown.set(element, html);
  if (parsed.innerHTML === element.innerHTML) return; // as the service has rendered it into the page
  const open = [...element.querySelectorAll("details[open][id]")].map((one) => one.id);
  const focus = element.contains(document.activeElement) ? document.activeElement : null;
  const focused = focus?.dataset?.feedback;
  const scrolled = [...element.querySelectorAll(".wide, .arms")].map((one) => [one.scrollLeft, one.scrollTop]);
  element.replaceChildren(parsed.content);
  for (const id of open) $(id)?.setAttribute("open", "");
  element.querySelectorAll(".wide, .arms").forEach((one, i) => { if (scrolled[i]) one.scrollTo(...scrolled[i]); });
  if (focus?.id) $(focus.id)?.focus({ preventScroll: true });
  else if (focused) element.querySelector(`[data-feedback="${focused}"]`)?.focus({ preventScroll: true });
}

function show(parts) {
  for (const element of document.querySelectorAll("[data-part]")) {
    if (element.dataset.part in parts) put(element, parts[element.dataset.part]);
  }
  const empty = document.querySelector("[data-empty]");
  if (empty && !empty.dataset.seen) {
    empty.dataset.seen = "yes";
    for (const id of ["new", "shell"]) $(id)?.setAttribute("open", "");
  }
  if (agent && $("fact-decisions") && Date.now() - announced > ANNOUNCE_EVERY) {
    const summary = `${$("fact-decisions").textContent} decisions, reward rate ${$("fact-reward").textContent}`;
    if (summary !== $("status").textContent) announce(summary);
  }
}

function signIn(problem) {
  $("sign-in").hidden = false;
  $("content").hidden = $("sign-out").hidden = true;
  if (problem && key.get()) showError($("sign-in-form"), new Problem(401, "This key is not known.", "key"));
  key.clear();
  $("key").focus();
}

function showOutage(problem, wait) {
  const what = problem.status === 0 ? "The service does not answer." : `The service answered: ${problem.message}.`;
  $("banner-text").textContent = `${what} What is shown may be outdated; next attempt in ${Math.round(wait / 1000)} s.`;
  $("banner").hidden = false;
  delete $("banner").dataset.refused;
}

// Load the parts; concurrent callers share one request. Load again after a while, unless the page is hidden.
function refresh() {
  loading ??= update().finally(() => { loading = null; });
  return loading;
}

async function update() {
  clearTimeout(timer);
  if (!source) return;
  let wait = INTERVAL;
  try {
    show((await request("GET", source)).parts);
    failures = 0;
    $("banner").hidden = !("refused" in $("banner").dataset); // why a form was refused stays there
    $("sign-in").hidden = true;
    $("content").hidden = false;
    $("sign-out").hidden = !key.get();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 401) return signIn(problem);
    failures += 1;
    wait = Math.min(INTERVAL * 2 ** (failures - 1), MAX_INTERVAL);
    if (problem.status === 404 || problem.status === 410) {
      $("banner-text").textContent = problem.message;
      $("banner").hidden = false;
      return;
    }
    showOutage(problem, wait);
  }
  if (!document.hidden) timer = setTimeout(refresh, wait);
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
$("retry").addEventListener("click", refresh);
$("sign-out").addEventListener("click", () => { key.clear(); location.reload(); });

onSubmit($("sign-in-form"), async (data) => {
  const given = data.get("key").trim();
  if (!given) throw new Problem(401, "A key is needed.", "key");
  key.set(given);
  await refresh();
  if (!$("content").hidden) $("main").focus();
});

onSubmit($("create"), async (data) => location.assign(`/agents/${encodeURIComponent(await create(data))}`));

explainChoice($("kind"), $("kind-hint"));
enableActions(async (sentence) => {
  announce(sentence);
  await refresh();
});

// Decisions are shown in a dialog, or below the form that requested one.

const loadDecision = async (id) => (await request("GET", `/web/agents/${agent}/decisions/${id}.json`)).parts.decision;

onSubmit($("try"), async (data) => {
  const made = await request("POST", `/v1/agents/${agent}/decisions`, { context: readContext(data.get("context")) });
  put($("tried"), await loadDecision(made.id));
  announce(`Decision ${made.id}: ${made.arm}`);
  await refresh();
});

async function openDialog(link) {
  const slot = $("why").open ? $("why-body") : null;
  try {
    put($("why-body"), await loadDecision(link.dataset.decision));
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    $("why-body").textContent = problem.message;
    shown.delete($("why-body"));
  }
  if (!slot) $("why").showModal();
  $("why-body").querySelector("h3")?.focus();
}

async function feedback(button) {
  const slot = button.closest("[data-slot]"), id = button.dataset.id, value = button.dataset.feedback;
  const path = `/v1/agents/${agent}/decisions/${id}`;
  clearErrors(slot);
  try {
    if (value === "withdraw") {
      await request("DELETE", path);
      put(slot, `<p class="none">Decision ${Number(id)} is withdrawn, and what was learned from it is undone.</p>`);
      announce(`Decision ${id} is withdrawn`);
    } else {
      const answer = await request("PUT", `${path}/reward`, { reward: JSON.parse(value) });
      announce(`Decision ${id}: ${button.textContent}, ${answer.outcome}`);
      put(slot, await loadDecision(id));
    }
    await refresh();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    showError(slot, problem);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-decision]"), button = event.target.closest("button[data-feedback]");
  if (button) feedback(button);
  if (link && $("why") && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    openDialog(link);
  }
});
$("why-close")?.addEventListener("click", () => $("why").close());
$("why")?.addEventListener("click", (event) => { if (event.target === $("why")) $("why").close(); });

if (keyed && !key.get()) signIn();
else refresh();
