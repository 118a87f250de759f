// Requests to the service, with the key of this tab if there is one.

const STORAGE_KEY = "taciturn-key";

export const key = {
  get: () => sessionStorage.getItem(STORAGE_KEY),
  set: (token) => sessionStorage.setItem(STORAGE_KEY, token),
  clear: () => sessionStorage.removeItem(STORAGE_KEY),
};

// An error: the HTTP status (0 without an answer), a message, and the field that it is about.
export class Problem extends Error {
  constructor(status, detail, field = "") {
    super(detail);
    this.status = status;
    this.field = field;
  }
}

export async function request(method, path, content) {
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
  if (!answer.ok) throw new Problem(answer.status, found.detail ?? found.title ?? "The request failed.", found.field ?? "");
  return found;
}
