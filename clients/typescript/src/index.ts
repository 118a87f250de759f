export { Agent, type DecideOptions } from "./agent.js";
export type * as api from "./api.js";
export type {
  Agent as About,
  Arm,
  Context,
  ContextValue,
  Decision,
  DecisionDetails,
  Explanation,
  Health,
  Neighbor,
} from "./api.js";
export { Client, type NewAgent } from "./client.js";
export type { Options, Time } from "./connection.js";
export * from "./errors.js";
