/** Requests to a service, sent again while it does not answer. */

import type { operations } from "./api.js";
import { ServiceUnavailable, TaciturnError, problemOf } from "./errors.js";

/** Settings of a client. */
export interface Options {
  /** The token of an API key, if the service needs one. */
  key?: string;
  /** Seconds for which a request is sent again; 0 for never. */
  patience?: number;
  /** Seconds to wait for each answer. */
  timeout?: number;
  /** Your own `fetch`, for a proxy or for tests. */
  fetch?: typeof fetch;
  /** Your own clock, for tests: `now` in seconds, `sleep` for so many, and a factor from 0.5 to 1 for pauses. */
  time?: Time;
}

export interface Time {
  now(): number;
  sleep(seconds: number): Promise<void>;
  jitter(): number;
}

type Operation = keyof operations;
type Json<T> = T extends { content: { "application/json": infer Found } } ? Found : undefined;
type Responses<Name extends Operation> = operations[Name]["responses"];
/** What an operation of the OpenAPI document answers, and what it takes. */
export type Answer<Name extends Operation> = Json<Responses<Name>[keyof Responses<Name> & (200 | 201 | 204)]>;
export type Body<Name extends Operation> = Json<operations[Name]["requestBody"]>;

/** The last answer to a request; `repeated` says that an earlier attempt may have been carried out. */
export interface Reply<T> {
  readonly repeated: boolean;
  /** The error that the answer stands for; undefined if it is a good one. */
  readonly problem: TaciturnError | undefined;
  /** The answer; throws the error that it stands for. */
  result(): T;
}

const RETRY_STATUSES = [429, 502, 503, 504];
const FIRST_PAUSE = 0.2;
const LONGEST_PAUSE = 5;
const LONGEST_PATIENCE = 86_400;
const SYSTEM_TIME: Time = {
  now: () => performance.now() / 1000,
  sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
  jitter: () => 0.5 + Math.random() / 2,
};

export class Connection {
  readonly address: string;
  readonly #headers: Record<string, string>;
  readonly #patience: number;
  readonly #timeout: number;
  readonly #fetch: typeof fetch;
  readonly #time: Time;

  constructor(url: string, options: Options) {
    this.address = checkedAddress(url);
    this.#headers = options.key === undefined ? {} : { authorization: `Bearer ${checkedKey(options.key)}` };
    this.#patience = checkedSeconds("patience", options.patience ?? 30, 0);
    this.#timeout = checkedSeconds("timeout", options.timeout ?? 30, 0.001);
    this.#fetch = options.fetch ?? fetch;
    this.#time = options.time ?? SYSTEM_TIME;
  }

  /** Send a request until it is answered; rejects with `ServiceUnavailable` if it never is. */
  async send<Name extends Operation>(
    method: "GET" | "POST" | "PUT" | "DELETE",
    path: string,
    body?: Body<Name>,
  ): Promise<Reply<Answer<Name>>> {
    const content = body === undefined ? undefined : encoded(body);
    const headers = content === undefined ? this.#headers : { ...this.#headers, "content-type": "application/json" };
    const deadline = this.#time.now() + this.#patience;
    let repeated = false;
    for (let attempts = 1; ; attempts++) {
      let reason: string;
      let asked = 0;
      try {
        const response = await this.#fetch(this.address + path, {
          method,
          headers,
          redirect: "manual",
          signal: AbortSignal.timeout(this.#timeout * 1000),
          ...(content === undefined ? {} : { body: content }),
        });
        const text = await response.text();
        if (!RETRY_STATUSES.includes(response.status)) return reply(response, text, repeated);
        reason = problemOf(response.status, text).message;
        asked = retryAfter(response.headers);
        repeated ||= response.status !== 429;
      } catch (error) {
        reason = whyNotSent(error);
        if (isTlsFault(error)) throw new TaciturnError(`${this.address} cannot be reached by https: ${reason}`);
        repeated ||= !wasNeverSent(error);
      }
      const left = deadline - this.#time.now();
      if (left <= 0) {
        throw new ServiceUnavailable(`${method} ${path} was sent ${attempts} times in ${this.#patience} s; ${reason}`);
      }
      const pause = Math.min(FIRST_PAUSE * 2 ** (attempts - 1), LONGEST_PAUSE) * this.#time.jitter();
      await this.#time.sleep(Math.min(asked + pause, left)); // the last attempt is when the patience ends
    }
  }
}

/** Seconds to wait by the header Retry-After, a number or a date; 0 without it, or if it cannot be read. */
export function retryAfter(headers: Headers, now = Date.now()): number {
  const given = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(given)) return Number(given.slice(0, 9));
  const [at, sent] = [Date.parse(given), Date.parse(headers.get("date") ?? "")];
  return Number.isNaN(at) ? 0 : Math.max((at - (Number.isNaN(sent) ? now : sent)) / 1000, 0);
}

function reply<T>(response: Response, text: string, repeated: boolean): Reply<T> {
  let problem = response.ok ? undefined : problemOf(response.status, text);
  let found: unknown;
  if (problem === undefined && text !== "") {
    try {
      found = JSON.parse(text);
    } catch {
      problem = problemOf(response.status, text);
    }
  }
  return {
    repeated,
    problem,
    result: () => {
      if (problem !== undefined) throw problem;
      return found as T;
    },
  };
}

/** A body as JSON, which has no NaN and no infinity: they would be sent as null. */
function encoded(body: unknown): string {
  return JSON.stringify(body, (_, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw new TaciturnError(`${value} cannot be sent to a service; a finite number is needed`);
    }
    if (typeof value === "bigint" || typeof value === "function" || typeof value === "symbol") {
      throw new TaciturnError(`a ${typeof value} cannot be sent to a service`);
    }
    return value;
  });
}

function whyNotSent(error: unknown): string {
  if (!(error instanceof Error)) return "no answer";
  const cause = error.cause instanceof Error ? error.cause : error;
  return cause.name === "TimeoutError" ? "no answer in time" : cause.message || errorCode(cause) || cause.name;
}

/** Whether there was no connection, so that the request cannot have been carried out. */
function wasNeverSent(error: unknown): boolean {
  const code = error instanceof Error ? errorCode(error.cause) : "";
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(code);
}

/** Whether the encryption is refused, which stays so however often it is tried; a connection that was cut off is not. */
function isTlsFault(error: unknown): boolean {
  const code = error instanceof Error ? errorCode(error.cause) : "";
  return /^ERR_(SSL|TLS)_|CERT/.test(code) && !code.includes("EOF");
}

function errorCode(cause: unknown): string {
  return typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : "";
}

function checkedAddress(url: string): string {
  let address: URL | undefined;
  try {
    address = new URL(url);
  } catch {
    // as with another scheme; the error does not show the address, in which a key may be by mistake
  }
  if (address === undefined || !["http:", "https:"].includes(address.protocol)) {
    throw new TaciturnError("the address of the service is not valid; http://localhost:8420 is");
  }
  return address.origin + address.pathname.replace(/\/+$/, "");
}

function checkedKey(key: string): string {
  if (typeof key !== "string" || !/^[!-~]+$/.test(key)) {
    throw new TaciturnError(
      "the key is empty or has a character that no token has; give the token alone, as `taciturn keys add` showed it",
    );
  }
  return key;
}

function checkedSeconds(name: string, seconds: number, least: number): number {
  if (typeof seconds !== "number" || !(seconds >= least && seconds <= LONGEST_PATIENCE)) {
    throw new TaciturnError(`${name}=${seconds} is not allowed; seconds from ${least} to ${LONGEST_PATIENCE} are`);
  }
  return seconds;
}
