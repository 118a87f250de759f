// Requests to the service, with the key of this tab if there is one.

const STORAGE_KEY = "taciturn-key";
const NO_ANSWER = "The service does not answer.";

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

// The answer to a request; content is sent as JSON, or as a form if it is one.
async function send(method, path, content) {
  const headers = { accept: "application/json" };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  const options = { method, headers, cache: "no-store", credentials: "same-origin" };
  if (content instanceof URLSearchParams) options.body = content;
  else if (content !== undefined) {
    headers["content-type"] = "application/json";
    options.body = JSON.stringify(content);
  }
  try {
    return await fetch(path, options);
  } catch {
    throw new Problem(0, NO_ANSWER);
  }
}

export async function request(method, path, content) {
  const answer = await send(method, path, content);
  let found;
  try {
    const text = await answer.text();
    found = text ? JSON.parse(text) : {};
  } catch {
    throw new Problem(answer.ok ? 500 : answer.status, NO_ANSWER);
  }
  if (!answer.ok) throw new Problem(answer.status, found.detail ?? found.title ?? "The request failed.", found.field ?? "");
  return found;
}

// The content of a file.
export async function download(path) {
  const answer = await send("GET", path);
  if (answer.ok) return answer.blob();
  const found = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, found.detail ?? NO_ANSWER);
}
