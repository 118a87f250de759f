/** Client of a service. */

import { Agent, agentPath } from "./agent.js";
import type { Agent as About, Create } from "./api.js";
import { Connection, type Options } from "./connection.js";
import { NameTaken, UnknownAgent } from "./errors.js";

/** What an agent is made from; only `arms` is needed. */
export type NewAgent = Pick<Create, "arms"> & Partial<Omit<Create, "name" | "arms">>;

/** Params that the service lowers to its own limits. */
const CAPPED = ["max_nodes", "memory_limit"];

/**
 * A connection to a service.
 *
 * A request without an answer, or with the answer "retry later", is sent again after a pause: as long as the service
 * asks for, or with longer and longer pauses. Every request is carried out once, however often it was sent.
 */
export class Client {
  readonly #connection: Connection;

  constructor(url = "http://localhost:8420", options: Options = {}) {
    this.#connection = new Connection(url, options);
  }

  /** The address of the service. */
  get address(): string {
    return this.#connection.address;
  }

  /** The names of all agents. */
  async agents(): Promise<string[]> {
    return (await this.#connection.send<"agents">("GET", "/v1/agents")).result().agents.map(({ name }) => name);
  }

  /** The agent of this name; whether there is one, its first request says. */
  agent(name: string): Agent {
    return new Agent(this.#connection, name);
  }

  /** Create an agent. */
  async create(name: string, given: NewAgent): Promise<Agent> {
    const agent = this.agent(name);
    const body = { kind: "viewucb" as const, params: {}, corrections: true, remember: [], ...given, name };
    const reply = await this.#connection.send<"create">("POST", "/v1/agents", body);
    const taken = reply.repeated && reply.problem instanceof NameTaken; // perhaps by an earlier attempt
    if (!(taken && isAsAsked(await agent.about(), body))) reply.result();
    return agent;
  }

  /** Delete the agent of this name permanently. */
  async delete(name: string): Promise<void> {
    const reply = await this.#connection.send<"delete">("DELETE", agentPath(name));
    if (!(reply.repeated && reply.problem instanceof UnknownAgent)) reply.result();
  }
}

/** Whether an agent is the one that the body of a request to create asks for. */
function isAsAsked(about: About, body: Create): boolean {
  const arms = typeof body.arms === "number" ? [...Array(body.arms).keys()] : body.arms;
  return (
    same([about.kind, about.arms, about.active, about.corrections], [body.kind, arms, arms, body.corrections]) &&
    Object.entries(body.params)
      .filter(([name]) => name in about.params) // a preset is not: its params are
      .every(([name, asked]) => isParam(name, about.params[name], asked))
  );
}

/** Whether a param is as it was asked for, or as the service has bounded it. */
function isParam(name: string, found: unknown, asked: unknown): boolean {
  if (name === "features") [found, asked] = [found, asked].map((part) => ({ ...(part as object), max_features: 0 }));
  const lowered = CAPPED.includes(name) && (asked === null || Number(found) < Number(asked));
  return lowered || same(found, asked);
}

/** Whether two JSON values are equal; fields of objects may be in any order. */
function same(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return one === other;
  const [a, b] = [Object.entries(one), new Map(Object.entries(other))];
  return (
    Array.isArray(one) === Array.isArray(other) &&
    a.length === b.size &&
    a.every(([name, value]) => b.has(name) && same(value, b.get(name)))
  );
}
