// Asking the service, with the key of this tab if there is one.

const PLACE = "taciturn-key";

export const key = {
  get: () => sessionStorage.getItem(PLACE),
  set: (token) => sessionStorage.setItem(PLACE, token),
  clear: () => sessionStorage.removeItem(PLACE),
};

// What went wrong: a status (0 where nobody answered), a sentence, and the field it is about.
export class Problem extends Error {
  constructor(status, detail, field = "") {
    super(detail);
    this.status = status;
    this.field = field;
  }
}

export async function ask(method, path, content) {
  const headers = { accept: "application/json" };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  const options = { method, headers, cache: "no-store", credentials: "same-origin" };
  if (content !== undefined) {
    headers["content-type"] = "application/json";
    options.body = JSON.stringify(content);
  }
  let answer, found;
  try {
    answer = await fetch(path, options);
    const text = await answer.text();
    found = text ? JSON.parse(text) : {};
  } catch {
    throw new Problem(answer && answer.ok ? 500 : answer?.status ?? 0, "The service does not answer.");
  }
  if (!answer.ok) throw new Problem(answer.status, found.detail ?? found.title ?? "It did not work.", found.field ?? "");
  return found;
}
