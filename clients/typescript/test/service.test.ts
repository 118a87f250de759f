/** The client against a running service, whose address and key are in TACITURN_URL and TACITURN_KEY. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as taciturn from "../src/index.js";
import { FakeTime, Losing } from "./kit.js";

const { TACITURN_URL: url, TACITURN_KEY: key } = process.env;
const skip = url === undefined && "TACITURN_URL does not name a running service";
const losing = new Losing();

function newClient(options: taciturn.Options = {}): taciturn.Client {
  return new taciturn.Client(url, { ...(key === undefined ? {} : { key }), ...options });
}

test("decide, feedback and explain", { skip }, async () => {
  const client = newClient();
  const shop = await client.create("shop", { arms: ["refund", "order", "human"], params: { seed: 0 } });
  assert.ok((await client.agents()).includes("shop"));
  const context = { late: 1, country: "DE", vip: true, note: "where is my parcel ✉", tags: ["web"], ref: null };
  const decision = await shop.decide(context);
  assert.ok(["refund", "order", "human"].includes(String(decision.arm)));
  assert.equal(decision.scores.length, 3);
  await shop.feedback(decision.id, 1);
  const next = await shop.decide(context, { neighbors: [decision.id], allowed: ["order", "human"] });
  assert.notEqual(next.arm, "refund");
  await shop.feedback(next.id, null);
  const details = await shop.explain(decision.id);
  assert.deepEqual([details.state, details.reward, details.arm], ["rewarded", 1, decision.arm]);
  assert.match(details.explanation.text, /^decision 0 is rewarded: /);
  assert.deepEqual(details.explanation.arms, ["refund", "order", "human"]);
  const health = await shop.health();
  assert.deepEqual([health.decisions, health.rewarded, health.silent, health.calibration], [2, 1, 1, null]);
});

test("batches, arms and their errors", { skip }, async () => {
  const client = newClient();
  const agent = await client.create("batches", { arms: 2, kind: "linucb" });
  const decisions = await agent.decideBatch([[1, 0], [0, 1], [1, 1]], { neighbors: [null, [0], [0, 1]] });
  assert.deepEqual(decisions.map(({ id }) => id), [0, 1, 2]);
  const refused = await agent.feedbackBatch([[0, 1], [1, null], [99, 0.5]]);
  assert.deepEqual([...refused.keys()], [99]);
  assert.deepEqual((await agent.addArm("a/b ü?", 0)).active, [0, 1, "a/b ü?"]);
  assert.deepEqual((await agent.retireArm("a/b ü?")).active, [0, 1]);
  await agent.withdraw(2);
  await assert.rejects(agent.explain(2), taciturn.ForgottenDecision);
  await assert.rejects(agent.feedback(77, 1), taciturn.UnknownDecision);
  await assert.rejects(agent.feedback(0, 2), { status: 422, field: "reward" });
  await assert.rejects(agent.decide({ a: 1 }), taciturn.InvalidContext);
  await assert.rejects(agent.decide([1, 2], { allowed: ["z"] }), taciturn.UnknownArm);
  await assert.rejects(agent.decide([1, 2], { neighbors: [1000] }), taciturn.UnknownDecision);
  await assert.rejects(client.agent("none").decide([1]), taciturn.UnknownAgent);
  await assert.rejects(client.create("batches", { arms: 2 }), taciturn.NameTaken);
  await assert.rejects(client.create("other", { arms: 2, params: { sead: 1 } }), taciturn.UnknownName);
});

test("a request id of the caller is decided on once", { skip }, async () => {
  const agent = await newClient().create("once", { arms: 2, kind: "linucb" });
  const first = await agent.decide([1], { requestId: "order 17" });
  assert.deepEqual(await newClient().agent("once").decide([1], { requestId: "order 17" }), first);
  await assert.rejects(agent.decide([2], { requestId: "order 17" }), taciturn.RequestIdReused);
});

test("every request is carried out once, however many answers are lost", { skip }, async () => {
  const client = newClient({ fetch: losing.fetch, time: new FakeTime() });
  losing.lost = 3;
  const params = { seed: 3, max_nodes: 10 ** 9, features: { text: ["note"] } };
  const agent = await client.create("lost", { arms: ["a", "b"], kind: "linucb", params });
  losing.lost = 1;
  await assert.rejects(client.create("lost", { arms: ["a", "b"], kind: "linucb", params: { seed: 4 } }), taciturn.NameTaken);
  losing.lost = 2;
  const decision = await agent.decide([1, 2]);
  assert.deepEqual([decision.id, (await agent.health()).decisions], [0, 1]);
  losing.lost = 1;
  await agent.feedback(0, 1);
  losing.lost = 1;
  assert.deepEqual((await agent.addArm("c", "a")).active, ["a", "b", "c"]);
  losing.lost = 1;
  await assert.rejects(agent.addArm("d", "z"), taciturn.TaciturnError);
  losing.lost = 1;
  assert.deepEqual((await agent.retireArm("b")).active, ["a", "c"]);
  losing.lost = 1;
  await agent.withdraw(0);
  await assert.rejects(agent.withdraw(0), taciturn.ForgottenDecision);
  losing.lost = 1;
  await client.delete("lost");
  await assert.rejects(client.delete("lost"), taciturn.UnknownAgent);
  assert.equal(losing.lost, 0);
});

test("a service that needs a key refuses others", { skip: skip || (key === undefined && "no key") }, async () => {
  for (const wrong of [{}, { key: "taciturn_wrong" }]) {
    await assert.rejects(new taciturn.Client(url, wrong).agents(), { name: "NotAllowed", status: 401 });
  }
});

test("a service that is not there is named in one line", async () => {
  const client = new taciturn.Client("http://127.0.0.1:1", { patience: 0 });
  await assert.rejects(client.agents(), { name: "ServiceUnavailable", message: /^GET \/v1\/agents was sent 1 times in 0 s; / });
});

test("types refuse what the service would refuse", () => {
  const agent = new taciturn.Client().agent("x");
  const wrong = [
    // @ts-expect-error a context is an array of numbers, named features, sparse parts or a text
    () => agent.decide(7),
    // @ts-expect-error a reward is a number or null
    () => agent.feedback(0, "good"),
    // @ts-expect-error there is no such method
    () => new taciturn.Client().create("x", { arms: 2, kind: "linucbb" }),
  ];
  assert.equal(wrong.length, 3);
});
