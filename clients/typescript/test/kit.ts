/** A clock that only pauses move, and a `fetch` that answers as it is told. */

import type { Time } from "../src/index.js";

export class FakeTime implements Time {
  seconds = 0;
  readonly pauses: number[] = [];

  now(): number {
    return this.seconds;
  }

  async sleep(seconds: number): Promise<void> {
    this.pauses.push(seconds);
    this.seconds += seconds;
  }

  jitter(): number {
    return 1;
  }
}

/** A `fetch` whose answers a function makes; what it throws is thrown. */
export function answering(answer: (url: string, request: RequestInit) => Response): typeof fetch {
  return async (url, request) => answer(String(url), request ?? {});
}

export function problem(status: number, kind = "unavailable", more: object = {}, headers: HeadersInit = {}): Response {
  const body = { type: `/docs#problem-${kind}`, title: "title", status, detail: "what is wrong", ...more };
  return Response.json(body, { status, headers });
}

/** What `fetch` throws when there is no answer. */
export function noAnswer(code: string): TypeError {
  return new TypeError("fetch failed", { cause: Object.assign(new Error(`it is ${code}`), { code }) });
}

/** The real `fetch`; the answers to the next `lost` requests are lost after they were carried out. */
export class Losing {
  lost = 0;

  readonly fetch: typeof fetch = async (url, request) => {
    const response = await fetch(url, request);
    if (this.lost === 0) return response;
    this.lost -= 1;
    await response.arrayBuffer();
    throw noAnswer("UND_ERR_SOCKET");
  };
}
