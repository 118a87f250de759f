// What can be done with an agent: its forms, which work without this script too, are sent with the key; and its file.

import { download, Problem, request } from "./api.js";
import { clearErrors, showError } from "./forms.js";

const DONE = { add: "is added", back: "is back", retire: "is retired" };

// Send a form that is marked so; then `done` is called with a sentence, or another page is opened.
async function submit(form, done) {
  const button = form.querySelector("[type=submit]"), root = form.closest("[data-errors]");
  if (button.getAttribute("aria-disabled") === "true") return;
  const fields = new URLSearchParams(new FormData(form));
  clearErrors(root);
  button.setAttribute("aria-disabled", "true");
  try {
    const { page } = await request("POST", form.getAttribute("action"), fields);
    if (form.dataset.form === "delete") return location.assign(page);
    form.reset();
    await done(`${fields.get("arm")} ${DONE[form.dataset.form]}`);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    showError(root, problem);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

async function save(link) {
  const spot = document.getElementById("export-error");
  spot.textContent = "";
  try {
    const url = URL.createObjectURL(await download(link.getAttribute("href")));
    const file = Object.assign(document.createElement("a"), { href: url, download: link.download });
    file.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    spot.textContent = problem.message;
  }
}

export function enableActions(done) {
  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.form) return;
    event.preventDefault();
    submit(event.target, done);
  });
  document.getElementById("export")?.addEventListener("click", (event) => {
    event.preventDefault();
    save(event.currentTarget);
  });
}

// The hint below a choice says what is chosen.
export function explainChoice(select, hint) {
  const show = () => { hint.textContent = select.selectedOptions[0]?.dataset.about ?? ""; };
  select?.addEventListener("change", show);
  if (select) show();
}
