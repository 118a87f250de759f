/** The client while the service is away, and what it never shows. Time is simulated. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { retryAfter } from "../src/connection.js";
import { Client, InvalidContext, ServiceUnavailable, TaciturnError, UnknownArm, UnknownDecision } from "../src/index.js";
import { FakeTime, answering, noAnswer, problem } from "./kit.js";

const DECISION = { id: 0, arm: "a", scores: [0, null], widths: [1, 1], propensity: 1 };

function clientOf(answer: (time: FakeTime, request: RequestInit) => Response, options = {}): [Client, FakeTime] {
  const time = new FakeTime();
  const given = { time, fetch: answering((_, request) => answer(time, request)), ...options };
  return [new Client("http://x", given), time];
}

for (const status of [429, 502, 503, 504]) {
  test(`a service that answers ${status} and is back within the patience is reached`, async () => {
    for (const away of [0, 0.1, 1, 7.3, 29.5]) {
      const [client, time] = clientOf(({ seconds }) =>
        seconds >= away ? Response.json({ agents: [] }) : problem(status),
      );
      assert.deepEqual(await client.agents(), []);
      assert.ok(away <= time.seconds && time.seconds <= Math.min(away + 5, 30));
      time.pauses.forEach((pause, i) => assert.ok(pause <= Math.min(0.2 * 2 ** i, 5)));
    }
  });
}

test("it gives up exactly when the patience ends", async () => {
  for (const patience of [0, 0.05, 3, 100]) {
    const refuse = () => {
      throw noAnswer("ECONNREFUSED");
    };
    const [client, time] = clientOf(refuse, { patience });
    await assert.rejects(client.agents(), (error: unknown) => {
      assert.ok(error instanceof ServiceUnavailable && error instanceof TaciturnError);
      assert.match(error.message, /^GET \/v1\/agents was sent \d+ times in .* s; it is ECONNREFUSED$/);
      return true;
    });
    assert.ok(Math.abs(time.seconds - patience) < 1e-9);
  }
});

test("pauses are as long as the service asks, but within the patience", async () => {
  for (const [asked, pause] of [["0", 0.2], ["3", 3.2], ["1000000000000", 30]] as const) {
    const [client, time] = clientOf(({ seconds }) =>
      seconds > 0 ? Response.json({ agents: [] }) : problem(503, "unavailable", {}, { "retry-after": asked }),
    );
    await client.agents();
    assert.deepEqual(time.pauses, [pause]);
  }
});

test("a date of Retry-After counts from the date of the answer", () => {
  const [now, there] = [Date.parse("2026-01-01T12:00:00Z"), Date.parse("2025-06-01T00:00:00Z")];
  const inSeconds = (start: number, seconds: number) => new Date(start + 1000 * seconds).toUTCString();
  for (const ahead of [-5, 0, 90]) {
    const dated = { "retry-after": inSeconds(there, ahead), date: inSeconds(there, 0) };
    assert.equal(retryAfter(new Headers(dated), now), Math.max(ahead, 0));
    assert.equal(retryAfter(new Headers({ "retry-after": inSeconds(now, ahead) }), now), Math.max(ahead, 0));
  }
  for (const unreadable of ["", "soon", "-1", "1.5 hours"]) {
    assert.equal(retryAfter(new Headers({ "retry-after": unreadable }), now) >= 0, true);
  }
});

test("every attempt of a request to decide has the same request id, and two requests never have", async () => {
  const ids: string[] = [];
  const [client] = clientOf((_, { body }) => {
    ids.push(JSON.parse(String(body)).request_id);
    return ids.length % 3 === 0 ? Response.json(DECISION) : problem(503);
  });
  await client.agent("x").decide([1]);
  await client.agent("x").decide([1]);
  await client.agent("x").decide([1], { requestId: "order 17" });
  assert.equal(new Set(ids.slice(0, 3)).size, 1);
  assert.equal(new Set(ids).size, 3);
  assert.equal(ids[8], "order 17");
});

test("problems become errors of their kind, with status and field", async () => {
  for (const [answer, kind, message] of [
    [problem(422, "invalid-context", { field: "context.age" }), InvalidContext, "what is wrong"],
    [problem(422, "validation-error", { field: "neighbors" }), UnknownDecision, "what is wrong"],
    [problem(422, "validation-error", { field: "allowed" }), UnknownArm, "what is wrong"],
    [problem(418, "new-in-2030"), TaciturnError, "what is wrong"],
    [new Response("<html>", { status: 404 }), TaciturnError, "the service answered 404, and not in the form of taciturn"],
    [new Response("<html>", { status: 200 }), TaciturnError, "the service answered 200, and not in the form of taciturn"],
    [new Response("null", { status: 500 }), TaciturnError, "the service answered 500, and not in the form of taciturn"],
  ] as const) {
    const [client, time] = clientOf(() => answer.clone());
    await assert.rejects(client.agent("x").decide("text"), (error: unknown) => {
      assert.ok(error instanceof kind);
      assert.equal(error.message, message);
      assert.equal(error.status, answer.status);
      assert.equal(error.name, kind.name);
      return true;
    });
    assert.deepEqual(time.pauses, [], "an error that waiting cannot cure is thrown at once");
  }
});

test("a certificate that is refused is not tried again, and a cut connection is", async () => {
  const [client, time] = clientOf(() => {
    throw noAnswer("DEPTH_ZERO_SELF_SIGNED_CERT");
  });
  await assert.rejects(client.agents(), /^TaciturnError: http:\/\/x cannot be reached by https: /);
  assert.deepEqual(time.pauses, []);
  const [other, otherTime] = clientOf(() => {
    throw noAnswer("ECONNRESET");
  });
  await assert.rejects(other.agents(), ServiceUnavailable);
  assert.equal(otherTime.seconds, 30);
});

test("what cannot be sent is refused before it is", async () => {
  const [client] = clientOf(() => assert.fail("a request was sent"));
  const agent = client.agent("x");
  for (const wrong of [NaN, Infinity]) await assert.rejects(agent.decide({ age: wrong }), /a finite number is needed/);
  for (const id of [-1, 0.5, NaN, 2 ** 60]) await assert.rejects(agent.feedback(id, 1), UnknownDecision);
  for (const arm of ["", ".", ".."]) await assert.rejects(agent.retireArm(arm), UnknownArm);
  for (const name of ["", "..", "a/b", "Shop", "x?y", "x".repeat(65)]) {
    assert.throws(() => client.agent(name), /cannot be the name of an agent/);
  }
});

test("a wrong address, key or patience is refused, and the key never shown", () => {
  for (const url of ["", "localhost:8420", "ftp://x", "taciturn_secret"]) {
    assert.throws(() => new Client(url), /^TaciturnError: the address of the service is not valid; \S+ is$/);
  }
  for (const key of ["", "sword fish", "swordfish\n", "рыба-меч"]) {
    assert.throws(() => new Client("http://x", { key }), (error: Error) => !/sword|fish|рыба/.test(String(error.stack)));
  }
  for (const patience of [-1, NaN, Infinity]) {
    assert.throws(() => new Client("http://x", { patience }), /patience=\S+ is not allowed; seconds from 0 to 86400 are/);
  }
  assert.ok(!JSON.stringify(new Client("http://x", { key: "swordfish" })).includes("swordfish"));
  assert.equal(new Client("http://user:pw@x:8420/behind/a/proxy/").address, "http://x:8420/behind/a/proxy");
});
