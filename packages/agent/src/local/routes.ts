import { readdirSync } from "node:fs";
import { decodeFileName } from "@roamfleet/protocol";
import { hash } from "node:crypto";
import type { AppStatus } from "../contract.ts";
import { isChanging } from "../deployments/app-status.ts";
import type { RobotKey } from "../identity/robot-key.ts";
import type { StatePaths } from "../runtime/paths.ts";
import type { RobotPermission } from "../safety/permission.ts";
import {
  type HeldLock,
  isOwner,
  isPid,
  isTtl,
  LOCK_OWNER_CHARACTERS_MAX,
  LOCK_TTL_SECONDS_MAX,
  LockBusy,
  LockHeld,
  type LockRequest,
  NoSuchProcess,
} from "../safety/update-lock.ts";
import { readIfExists } from "../disk/write-atomically.ts";
import { InvalidSamples, type PushedSamples, type PushResult } from "../metrics/pushed-samples.ts";

export interface AgentView {
  robot_id: string;
  name: string;
  agent_version: string;
  /** Where the robot's private key is. */
  key: RobotKey["place"];
  connected: () => boolean;
  apps: () => AppStatus[];
  permission: RobotPermission;
  paths: StatePaths;
  /** Takes samples of metrics; absent: the robot's config disables metrics. */
  pushed?: PushedSamples | undefined;
}

interface LocalRequest {
  path: string;
  query: URLSearchParams;
  /** The request's body as parsed JSON; undefined if the request has no body. */
  body: unknown;
}

export class LocalError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(status: number, code: string, message: string, details: Record<string, unknown> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

type Answer = (view: AgentView, request: LocalRequest) => unknown;

/** All routes except the event stream and samples; `{namespace}` matches one segment of the path. */
export const LOCAL_ROUTES: Record<string, Answer> = {
  "GET /v1/status": (view) => status(view),
  "GET /v1/lock": ({ permission }) => ({ lock: permission.lock() ?? null }),
  "PUT /v1/lock": (view, { body }) => ({ lock: takeLock(view, lockRequest(body)) }),
  "DELETE /v1/lock": (view, { query }) => ({ released: releaseLock(view, query) }),
  "GET /v1/configs": ({ paths }) => ({ configs: listConfigs(paths) }),
  "GET /v1/configs/{namespace}": ({ paths }, { path }) => readConfigFile(paths, namespaceOf(path)),
};
export const EVENTS_PATH = "/v1/events";
/** Its body may be larger, and need not be JSON. */
export const SAMPLES_ROUTE = "POST /v1/samples";

/** Returns the answer to a request. Throws LocalError. */
export function answerLocal(view: AgentView, method: string, request: LocalRequest): unknown {
  const pattern = request.path.startsWith("/v1/configs/") ? "/v1/configs/{namespace}" : request.path;
  const route = LOCAL_ROUTES[`${method} ${pattern}`];
  if (route !== undefined) return route(view, request);
  const methods = [...Object.keys(LOCAL_ROUTES), SAMPLES_ROUTE].flatMap((one) => (one.endsWith(` ${pattern}`) ? [one.split(" ")[0]] : []));
  if (methods.length === 0) throw new LocalError(404, "not_found", "there is no such path");
  throw new LocalError(405, "method_not_allowed", `this path supports only ${methods.join(", ")}`);
}

/** Takes samples. Throws LocalError if the body is invalid, or if no sample was accepted. */
export function takeSamples({ pushed }: AgentView, content_type: string | undefined, body: Buffer): PushResult {
  if (pushed === undefined) throw new LocalError(409, "disabled", "the robot's config disables metrics");
  try {
    const result = pushed.take(content_type, body);
    const [first] = result.dropped;
    if (result.accepted > 0 || first === undefined) return result;
    throw new LocalError(400, "invalid", `no sample was accepted: ${first.explanation}`, { dropped: result.dropped });
  } catch (error) {
    throw error instanceof InvalidSamples ? invalid(error.message) : error;
  }
}

function status({ robot_id, name, agent_version, key, connected, apps, permission }: AgentView) {
  return { robot_id, name, agent_version, key, connected: connected(), apps: apps(), lock: permission.lock() ?? null };
}

function lockRequest(body: unknown): LockRequest {
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw invalid("the body must be a JSON object with owner, ttl_seconds and pid");
  const { owner, ttl_seconds, pid, ...rest } = body as Record<string, unknown>;
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) throw invalid(`unknown field ${JSON.stringify(unknown.slice(0, 100))}`);
  if (!isOwner(owner)) throw invalid(`owner must be a string of 1 to ${LOCK_OWNER_CHARACTERS_MAX} printable characters`);
  if (!isTtl(ttl_seconds)) throw invalid(`ttl_seconds must be a number from 1 to ${LOCK_TTL_SECONDS_MAX}`);
  if (pid !== undefined && !isPid(pid)) throw invalid("pid must be the id of a process on this robot");
  return { owner, ttl_seconds, ...(pid === undefined ? {} : { pid }) };
}

/**
 * Takes the lock, or renews it for its owner. Throws LocalError if another owner has the lock, or if a new lock is requested while an app
 * is being changed. So no change is in progress when a lock is taken.
 */
function takeLock({ apps, permission }: AgentView, request: LockRequest): HeldLock {
  const changing = apps().find(isChanging);
  // A renewal is allowed during a change. Otherwise the lock would expire and further changes could begin.
  if (changing !== undefined && permission.lock()?.owner !== request.owner)
    throw new LocalError(409, "update_in_progress", `app ${changing.app} is being changed (${changing.phase?.replace("_", " ")})`, {
      app: changing.app,
    });
  return answering(() => permission.takeLock(request));
}

function releaseLock({ permission }: AgentView, query: URLSearchParams): boolean {
  const owner = query.get("owner");
  if (owner === null && query.get("force") !== "true") throw invalid("the owner is required: ?owner=NAME, or ?force=true for any owner");
  return answering(() => permission.releaseLock(owner ?? undefined));
}

function answering<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof LockHeld) throw new LocalError(409, "locked", error.message, { lock: error.held });
    if (error instanceof NoSuchProcess) throw invalid(error.message);
    if (error instanceof LockBusy) throw new LocalError(503, "busy", error.message);
    throw error;
  }
}

const invalid = (message: string): LocalError => new LocalError(400, "invalid", message);

function namespaceOf(path: string): string {
  try {
    return decodeURIComponent(path.slice("/v1/configs/".length));
  } catch {
    throw invalid("the namespace is not encoded correctly");
  }
}

interface ConfigFile {
  namespace: string;
  sha256: string;
  bytes: number;
}

function listConfigs(paths: StatePaths): ConfigFile[] {
  return configNames(paths).flatMap((namespace) => {
    const bytes = readIfExists(paths.config(namespace));
    return bytes === undefined ? [] : [describe(namespace, bytes)];
  });
}

function configNames(paths: StatePaths): string[] {
  return readdirSync(paths.configs)
    .filter((file) => file.endsWith(".json"))
    .flatMap((file) => decodeFileName(file.slice(0, -".json".length)) ?? [])
    .toSorted();
}

function readConfigFile(paths: StatePaths, namespace: string) {
  const bytes = readIfExists(paths.config(namespace));
  if (bytes === undefined) throw new LocalError(404, "not_found", `this robot has no config ${JSON.stringify(namespace.slice(0, 200))}`);
  try {
    return { ...describe(namespace, bytes), content: JSON.parse(bytes.toString("utf8")) as unknown };
  } catch {
    throw new LocalError(409, "not_json", "the file was changed by hand and is not JSON");
  }
}

const describe = (namespace: string, bytes: Buffer): ConfigFile => ({
  namespace,
  sha256: hash("sha256", bytes),
  bytes: bytes.length,
});
