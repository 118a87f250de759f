// Keeps the page up to date: asks for the parts of the view, and puts in place those that have changed.

import { ask, key, Problem } from "./api.js";
import { clearErrors, create, onSubmit, readContext, showError } from "./forms.js";

const EVERY = 2000, LONGEST = 30000, SPEAK = 20000; // milliseconds
const body = document.body;
const { source, agent } = body.dataset;
const keyed = body.dataset.keyed === "yes";
const $ = (id) => document.getElementById(id);
const shown = new WeakMap();
let timer = 0, failures = 0, spoken = Date.now(), asking = null;

document.documentElement.classList.add("scripts");

function say(text) {
  $("status").textContent = text;
  spoken = Date.now();
}

// Put HTML of this service into a place; what was open stays open, and the focus where it was.
function put(place, html) {
  if (shown.get(place) === html) return;
  const open = [...place.querySelectorAll("details[open][id]")].map((one) => one.id);
  const focus = place.contains(document.activeElement) ? document.activeElement : null;
  const said = focus?.dataset?.say;
  const sides = [...place.querySelectorAll(".wide")].map((one) => one.scrollLeft);
  place.innerHTML = html;
  shown.set(place, html);
  for (const id of open) $(id)?.setAttribute("open", "");
  place.querySelectorAll(".wide").forEach((one, i) => { one.scrollLeft = sides[i] ?? 0; });
  if (focus?.id) $(focus.id)?.focus({ preventScroll: true });
  else if (said) place.querySelector(`[data-say="${said}"]`)?.focus({ preventScroll: true });
}

function show(parts) {
  for (const place of document.querySelectorAll("[data-part]")) {
    if (place.dataset.part in parts) put(place, parts[place.dataset.part]);
  }
  const empty = document.querySelector("[data-empty]");
  if (empty && !empty.dataset.seen) {
    empty.dataset.seen = "yes";
    for (const id of ["new", "shell"]) $(id)?.setAttribute("open", "");
  }
  if (agent && $("fact-decisions") && Date.now() - spoken > SPEAK) {
    const news = `${$("fact-decisions").textContent} decisions, reward rate ${$("fact-reward").textContent}`;
    if (news !== $("status").textContent) say(news);
  }
}

function signIn(problem) {
  $("sign-in").hidden = false;
  $("content").hidden = $("sign-out").hidden = true;
  if (problem && key.get()) showError($("sign-in-form"), new Problem(401, "This key is not known here.", "key"));
  key.clear();
  $("key").focus();
}

function trouble(problem, wait) {
  const what = problem.status === 0 ? "The service does not answer." : `The service says: ${problem.message}.`;
  $("banner-text").textContent = `${what} What is shown may be old; trying again in ${Math.round(wait / 1000)} s.`;
  $("banner").hidden = false;
}

// Ask once, whoever wants it; then again after a while, unless nobody looks.
function refresh() {
  asking ??= update().finally(() => { asking = null; });
  return asking;
}

async function update() {
  clearTimeout(timer);
  if (!source) return;
  let wait = EVERY;
  try {
    show((await ask("GET", source)).parts);
    failures = 0;
    $("banner").hidden = true;
    $("sign-in").hidden = true;
    $("content").hidden = false;
    $("sign-out").hidden = !key.get();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 401) return signIn(problem);
    failures += 1;
    wait = Math.min(EVERY * 2 ** (failures - 1), LONGEST);
    if (problem.status === 404 || problem.status === 410) {
      $("banner-text").textContent = problem.message;
      $("banner").hidden = false;
      return;
    }
    trouble(problem, wait);
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

// Decisions: looked at in a dialog, or below the form that asked for one.

const look = async (id) => (await ask("GET", `/web/agents/${agent}/decisions/${id}.json`)).parts.decision;

onSubmit($("try"), async (data) => {
  const made = await ask("POST", `/v1/agents/${agent}/decisions`, { context: readContext(data.get("context")) });
  put($("tried"), await look(made.id));
  say(`Decision ${made.id}: ${made.arm}`);
  await refresh();
});

async function open(link) {
  const slot = $("why").open ? $("why-body") : null;
  try {
    put($("why-body"), await look(link.dataset.decision));
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    $("why-body").textContent = problem.message;
    shown.delete($("why-body"));
  }
  if (!slot) $("why").showModal();
  $("why-body").querySelector("h3")?.focus();
}

async function feedback(button) {
  const slot = button.closest("[data-slot]"), id = button.dataset.of, word = button.dataset.say;
  const path = `/v1/agents/${agent}/decisions/${id}`;
  clearErrors(slot);
  try {
    if (word === "withdraw") {
      await ask("DELETE", path);
      put(slot, `<p class="none">Decision ${Number(id)} is withdrawn: it is as if it had not been.</p>`);
      say(`Decision ${id} is withdrawn`);
    } else {
      const heard = await ask("PUT", `${path}/reward`, { reward: JSON.parse(word) });
      say(`Decision ${id}: ${button.textContent}, ${heard.outcome}`);
      put(slot, await look(id));
    }
    await refresh();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    showError(slot, problem);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-decision]"), button = event.target.closest("button[data-say]");
  if (button) feedback(button);
  if (link && $("why") && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    open(link);
  }
});
$("why-close")?.addEventListener("click", () => $("why").close());
$("why")?.addEventListener("click", (event) => { if (event.target === $("why")) $("why").close(); });

if (keyed && !key.get()) signIn();
else refresh();
