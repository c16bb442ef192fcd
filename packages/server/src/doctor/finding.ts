import type { Clock } from "@roamfleet/clock";
import type { Settings } from "../config.ts";
import { connect, type DatabaseSeen, type DbAddress, type DbEngine } from "../engines/db/index.ts";
import type { Part } from "./read-settings.ts";
import { SILENT } from "../engines/log.ts";

/** Result of a check: healthy, a risk, a problem that prevents the server from working, or not checked. */
export type Status = "ok" | "warning" | "problem" | "skipped";

export interface Finding {
  /** The checked part, in one or two words. */
  check: string;
  status: Status;
  /** What was found. */
  seen: string;
  /** How to fix it. */
  hint?: string;
}

/** A finding without the name of its check. */
export type Seen = Omit<Finding, "check">;

export const ok = (seen: string): Seen => ({ status: "ok", seen });
export const warning = (seen: string, hint: string): Seen => ({ status: "warning", seen, hint });
export const problem = (seen: string, hint: string): Seen => ({ status: "problem", seen, hint });
export const skipped = (seen: string): Seen => ({ status: "skipped", seen });

/** Result of connecting to the database: its address and state, why it is unreachable, or why there is none. */
export type Reached = { address: DbAddress; seen: DatabaseSeen } | { failure: unknown } | { absent: string };

/** The settings and tools that each check receives. */
export interface DoctorContext {
  settings: Settings;
  /** Error messages for the invalid settings. */
  wrong_settings: readonly string[];
  /** Parts of the settings that are invalid. `settings` contains only the valid parts. */
  wrong_parts: ReadonlySet<Part>;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  /** Time limit of the check. */
  timeout_ms: number;
  /** Aborted when the check's time limit is over. The check must then clean up and end. */
  signal: AbortSignal;
  /** The database, probed once for all checks. Never rejects. */
  database: () => Promise<Reached>;
}

export interface Check {
  name: string;
  /** Minimum time limit, for a check that depends on a fixed interval. */
  timeout_ms_min?: number;
  check: (context: DoctorContext) => Promise<Seen[]> | Seen[];
}

/**
 * Runs `use` on the database. Returns undefined if the database is unreachable or its tables are not those of this version. `with_pending`
 * also accepts tables that the next start migrates.
 */
export async function onDatabase<T>(
  { database, clock }: Pick<DoctorContext, "database" | "clock">,
  use: (db: DbEngine) => Promise<T>,
  { with_pending = false } = {},
): Promise<T | undefined> {
  const reached = await database();
  if (!("seen" in reached) || !reached.seen.may_serve_orgs) return undefined;
  const { migrations } = reached.seen;
  if (migrations === undefined || migrations.is_new || migrations.unknown.length > 0) return undefined;
  if (migrations.pending.length > 0 && !with_pending) return undefined;
  const db = await connect({ connection: reached.address, pool_size: 2, clock, log: SILENT });
  try {
    return await use(db);
  } finally {
    await db.close();
  }
}

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** Formats a number of bytes, such as `1.5 GiB`. */
export function shownBytes(bytes: number): string {
  const at = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  const value = bytes / 1024 ** at;
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[at]}`;
}

/** Formats a duration, such as `0.4 ms`, `12 ms`, `3.2 s` or `5 min`. */
export function shownTime(ms: number): string {
  const size = Math.abs(ms);
  if (size < 10) return `${ms.toFixed(1)} ms`;
  if (size < 1_000) return `${Math.round(ms)} ms`;
  return size < 120_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;
}

const SAID_CHARACTERS_MAX = 300;

/** Returns the first line of another program's error message, without the secrets. */
export function said(error: unknown, secrets: readonly string[]): string {
  const { message = "", code } = error instanceof Error ? (error as Error & { code?: unknown }) : { message: String(error) };
  // A host name with several addresses fails with an AggregateError, which has no message.
  const inner = error instanceof AggregateError ? (error.errors as unknown[]).find((one) => one instanceof Error) : undefined;
  if (message === "" && inner !== undefined) return said(inner, secrets);
  const line = message.split("\n", 1)[0]?.slice(0, SAID_CHARACTERS_MAX) || (typeof code === "string" ? code : "no reason was given");
  return secrets.reduce((text, secret) => (secret === "" ? text : text.replaceAll(secret, "[secret]")), line);
}

/** Returns a URL without user, password and parameters, for a report. */
export function shownUrl(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null) return "a URL that cannot be read";
  return `${parsed.protocol}//${parsed.host}${parsed.pathname}`;
}

/** Returns the secret parts of a database URL, each both encoded and decoded, the longest first. */
export function secretsOf(url: string | undefined): string[] {
  const parsed = URL.parse(url ?? "");
  const written = [/^[a-z]+:\/\/[^@/?#]*?:([^@]*)@/i.exec(url ?? "")?.[1], parsed?.password, parsed?.searchParams.get("password")];
  const known = written.flatMap((secret) => (secret == null || secret === "" ? [] : [secret, decode(secret)]));
  return [...new Set(known)].toSorted((a, b) => b.length - a.length);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
