/** An agent of a service. */

import type { Agent as About, Arm, Context, Decision, DecisionDetails, Health } from "./api.js";
import type { Connection } from "./connection.js";
import { ForgottenDecision, TaciturnError, UnknownArm, UnknownDecision } from "./errors.js";

/** What a request to decide may have beside its context. */
export interface DecideOptions {
  /** The arms that may be chosen; all by default. */
  allowed?: Arm[];
  /** A request with an id of your own is decided on once, also if your program is started again in between. */
  requestId?: string;
}

/** An agent of a service: `decide` and `feedback`, and what goes with them. */
export class Agent {
  readonly name: string;
  readonly #connection: Connection;
  readonly #path: string;

  constructor(connection: Connection, name: string) {
    this.name = name;
    this.#connection = connection;
    this.#path = agentPath(name);
  }

  /** Choose an arm for a context; `neighbors` are ids of earlier decisions that it is near to. */
  async decide(context: Context, options: DecideOptions & { neighbors?: number[] } = {}): Promise<Decision> {
    const body = { context, neighbors: options.neighbors ?? null, ...shared(options) };
    const reply = await this.#connection.send<"decide">("POST", `${this.#path}/decisions`, body);
    return reply.result() as Decision;
  }

  /** Choose an arm for each context. */
  async decideBatch(
    contexts: Context[],
    options: DecideOptions & { neighbors?: (number[] | null)[] } = {},
  ): Promise<Decision[]> {
    const body = { contexts, neighbors: options.neighbors ?? null, ...shared(options) };
    const answer = (await this.#connection.send<"decide">("POST", `${this.#path}/decisions`, body)).result();
    return "decisions" in answer ? answer.decisions : [answer];
  }

  /** Give a decision its reward from 0 to 1; null if none will come. */
  async feedback(id: number, reward: number | null): Promise<void> {
    const path = `${this.#path}/decisions/${checkedId(id)}/reward`;
    (await this.#connection.send<"feedback">("PUT", path, { reward })).result();
  }

  /** Give many decisions their rewards; returns the ids that were refused, and why. */
  async feedbackBatch(rewards: Iterable<[id: number, reward: number | null]>): Promise<Map<number, string>> {
    const body = [...rewards].map(([id, reward]) => ({ id, reward }));
    const answer = (await this.#connection.send<"feedbacks">("PUT", `${this.#path}/rewards`, body)).result();
    return new Map(answer.refused.map(({ id, detail }) => [id, detail]));
  }

  /** The state and reward of a decision, and why its arm was chosen: `explanation.text` is a few lines to read. */
  async explain(id: number): Promise<DecisionDetails> {
    return (await this.#connection.send<"explain">("GET", `${this.#path}/decisions/${checkedId(id)}`)).result();
  }

  /** Remove a decision that was never shown, and what was learned from it. */
  async withdraw(id: number): Promise<void> {
    const reply = await this.#connection.send<"withdraw">("DELETE", `${this.#path}/decisions/${checkedId(id)}`);
    if (!(reply.repeated && reply.problem instanceof ForgottenDecision)) reply.result(); // else an earlier attempt did
  }

  /** The agent's kind, arms and parameters. */
  async about(): Promise<About> {
    return (await this.#connection.send<"agent">("GET", this.#path)).result();
  }

  /** The agent's diagnostics. */
  async health(): Promise<Health> {
    return (await this.#connection.send<"health">("GET", `${this.#path}/health`)).result();
  }

  /** Add an arm, or bring a retired one back; a new one starts with what is known of `like`. */
  async addArm(arm: Arm, like: Arm | null = null): Promise<About> {
    const reply = await this.#connection.send<"addArm">("POST", `${this.#path}/arms`, { arm, like });
    if (reply.repeated && reply.problem !== undefined) {
      const about = await this.about();
      if (about.active.includes(arm)) return about; // an earlier attempt has added it
    }
    return reply.result();
  }

  /** Never choose an arm again. */
  async retireArm(arm: Arm): Promise<About> {
    const text = String(arm);
    if (text === "" || text === "." || text === "..") throw new UnknownArm(`${JSON.stringify(text)} is not an arm`);
    const path = `${this.#path}/arms/${encodeURIComponent(text)}`;
    return (await this.#connection.send<"retireArm">("DELETE", path)).result();
  }
}

/** The path of an agent; a name that no agent can have would lead elsewhere. */
export function agentPath(name: string): string {
  if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(name)) {
    throw new TaciturnError(
      `${JSON.stringify(name)} cannot be the name of an agent; small letters, digits, - and _ can, at most 64`,
    );
  }
  return `/v1/agents/${name}`;
}

/** What every request to decide has: an id always, since a retry must not be decided on again. */
function shared(options: DecideOptions): { allowed: Arm[] | null; request_id: string } {
  return { allowed: options.allowed ?? null, request_id: options.requestId ?? crypto.randomUUID() };
}

function checkedId(id: number): number {
  if (!Number.isSafeInteger(id) || id < 0) throw new UnknownDecision(`unknown decision ${id}`);
  return id;
}
