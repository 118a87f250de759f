/** Errors of the client: one class for each kind of problem that a program may want to handle. */

import type { Problem } from "./api.js";

/** Any error of the service or of the client; its message is one line. */
export class TaciturnError extends Error {
  /** The HTTP status of the answer; undefined if there was none. */
  readonly status: number | undefined;
  /** The kind of problem, as "unknown-agent"; empty if the service did not name one. */
  readonly kind: string;
  /** Which field of the request was wrong, as "context.age"; undefined if none was. */
  readonly field: string | undefined;

  constructor(message: string, status?: number, kind = "", field?: string) {
    super(message);
    this.name = new.target.name;
    this.status = status;
    this.kind = kind;
    this.field = field;
  }
}

/** The service could not be reached, or answered "retry later", for as long as the client was patient. */
export class ServiceUnavailable extends TaciturnError {}
export class UnknownAgent extends TaciturnError {}
export class UnknownDecision extends TaciturnError {}
export class ForgottenDecision extends TaciturnError {}
export class AlreadyAnswered extends TaciturnError {}
export class InvalidContext extends TaciturnError {}
export class InvalidReward extends TaciturnError {}
export class UnknownArm extends TaciturnError {}
export class UnknownName extends TaciturnError {}
export class NameTaken extends TaciturnError {}
export class RequestIdReused extends TaciturnError {}
/** The service needs a key, or this one does not allow what was asked. */
export class NotAllowed extends TaciturnError {}

const BY_KIND: Record<string, typeof TaciturnError> = {
  "unknown-agent": UnknownAgent,
  "unknown-decision": UnknownDecision,
  "forgotten-decision": ForgottenDecision,
  "already-answered": AlreadyAnswered,
  "invalid-context": InvalidContext,
  "invalid-reward": InvalidReward,
  "unknown-arm": UnknownArm,
  "unknown-name": UnknownName,
  "name-taken": NameTaken,
  "request-id-reused": RequestIdReused,
  "no-key": NotAllowed,
  "not-allowed": NotAllowed,
};
const BY_FIELD: Record<string, typeof TaciturnError> = { neighbors: UnknownDecision, allowed: UnknownArm };

/** The error for an answer that is not a good one. */
export function problemOf(status: number, body: string): TaciturnError {
  const problem = parsed(body);
  if (typeof problem?.detail !== "string") {
    return new TaciturnError(`the service answered ${status}, and not in the form of taciturn`, status);
  }
  const kind = kindOf(problem);
  const found = BY_KIND[kind] ?? BY_FIELD[problem.field ?? ""] ?? TaciturnError;
  return new found(problem.detail, status, kind, problem.field);
}

function kindOf(problem: Partial<Problem>): string {
  return String(problem.type ?? "").split("#problem-")[1] ?? "";
}

function parsed(body: string): Partial<Problem> | undefined {
  try {
    const found: unknown = JSON.parse(body);
    return typeof found === "object" && found !== null ? found : undefined;
  } catch {
    return undefined;
  }
}
