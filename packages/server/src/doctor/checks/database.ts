import type { Limits } from "../../config.ts";
import type { DatabaseSeen, MigrationsSeen } from "../../engines/db/index.ts";
import type { Check, DoctorContext } from "../context.ts";
import { ok, problem, type Seen, skipped, warning } from "../finding.ts";
import { said, secretsOf, shownTime, shownUrl } from "../shown.ts";

const VERSION_MIN = 150_000;
const CLOCK_WARNING_MS = 1_000;
const CLOCK_PROBLEM_MS = 60_000;
/** A request asks the database two to five times, one after the other. */
const ROUND_TRIP_SLOW_MS = 5;
/** The one that migrates, and one for a person who looks. */
const CONNECTIONS_BESIDE_POOL = 2;

export const databaseCheck: Check = {
  name: "database",
  async check({ settings, database }) {
    const reached = await database();
    if ("absent" in reached) return [skipped(reached.absent)];
    if ("failure" in reached) return [judgeFailure(reached.failure, settings.database_url)];
    return judgeDatabase(reached.seen, settings);
  },
};

export const migrationsCheck: Check = {
  name: "migrations",
  async check({ database }) {
    const reached = await database();
    if (!("seen" in reached)) return [skipped("the database was not reached")];
    const { migrations, user } = reached.seen;
    return [migrations === undefined ? skipped(`the user ${user} may not read them`) : judgeMigrations(migrations)];
  },
};

const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "is PostgreSQL running, and does listen_addresses name that address?",
  ENOTFOUND: "there is no such host: correct DATABASE_URL",
  EAI_AGAIN: "the name cannot be looked up now: DNS",
  ETIMEDOUT: "a firewall may be in between",
  EHOSTUNREACH: "there is no way to that host",
  ENOENT: "no socket lies there: is PostgreSQL running?",
  ERR_INVALID_URL: "it has the form postgres://USER:PASSWORD@HOST:5432/DATABASE, with special characters as %41",
  "28P01": "correct user or password in DATABASE_URL; special characters are written as %41",
  "28000": "PostgreSQL's pg_hba.conf must let this user in from here, perhaps only with TLS: ?sslmode=require",
  "3D000": "make it: create database roamfleet owner roamfleet",
  "53300": "all of max_connections are taken: raise it, or close others",
  "57P03": "it is starting or stopping: look again",
  "42501": "the user may not connect to this database: grant connect, or make it its owner",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is its own: ?sslrootcert=FILE names what to trust",
  SELF_SIGNED_CERT_IN_CHAIN: "its authority is not known here: ?sslrootcert=FILE names what to trust",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its authority is not known here: ?sslrootcert=FILE names what to trust",
  ERR_TLS_CERT_ALTNAME_INVALID: "name the host as its certificate does",
  CERT_HAS_EXPIRED: "its certificate has expired",
};

/** Why there is no connection, without the password. */
export function judgeFailure(error: unknown, database_url: string | undefined): Seen {
  const codes = [error, ...(error instanceof AggregateError ? (error.errors as unknown[]) : [])].map(
    (one) => (one as { code?: unknown }).code,
  );
  const code = codes.find((one) => typeof one === "string");
  const where = database_url === undefined ? "the embedded database" : shownUrl(database_url);
  const reason = said(error, secretsOf(database_url));
  return problem(`${where}: ${reason}`, HINTS[code ?? ""] ?? "the URL is in DATABASE_URL; is PostgreSQL there?");
}

export function judgeDatabase(
  seen: DatabaseSeen,
  { limits, database_url }: Pick<DoctorContext["settings"], "limits" | "database_url">,
): Seen[] {
  const found = [...judgeServer(seen), ...judgeRights(seen), ...judgeConnections(seen, limits), ...judgeClock(seen)];
  const is_far = database_url !== undefined && !/^postgres(ql)?:\/\/([^@/]*@)?(localhost|127\.|\[::1\]|\/|\?)/.test(database_url);
  if (is_far && seen.round_trip_ms > ROUND_TRIP_SLOW_MS)
    found.push(
      warning(
        `it is ${shownTime(seen.round_trip_ms)} away: every request takes several times that`,
        "put server and database into one data centre",
      ),
    );
  if (is_far && !seen.is_encrypted)
    found.push(
      warning(
        "what goes to and from it is not encrypted",
        "append ?sslmode=verify-full to DATABASE_URL, unless the network in between is your own",
      ),
    );
  const where = database_url === undefined ? "embedded" : shownUrl(database_url);
  const summary = `${where}, PostgreSQL ${seen.version_name.split(" ", 1)[0]}, ${shownTime(seen.round_trip_ms)} away`;
  return [ok(summary), ...found];
}

function judgeServer(seen: DatabaseSeen): Seen[] {
  const found: Seen[] = [];
  if (seen.version < VERSION_MIN)
    found.push(
      problem(`PostgreSQL ${seen.version_name}; 15 or newer is needed`, "upgrade it, or leave DATABASE_URL out for the embedded one"),
    );
  if (seen.encoding !== "UTF8")
    found.push(
      problem(`its encoding is ${seen.encoding}`, `make another: create database ${seen.database} encoding 'UTF8' template template0`),
    );
  if (seen.read_only === "replica")
    found.push(
      problem(
        "it is a replica, which takes no writes",
        "name the primary in DATABASE_URL; with several hosts append ?target_session_attrs=read-write where your pooler knows it",
      ),
    );
  if (seen.read_only === "settings")
    found.push(problem("its sessions may not write", `alter database ${seen.database} reset default_transaction_read_only`));
  for (const [name, value] of Object.entries(seen.durability)) {
    if (value !== "off") continue;
    found.push(
      problem(`${name} is off: a crash loses what was acknowledged, or all`, `alter system set ${name} = on; select pg_reload_conf()`),
    );
  }
  return found;
}

function judgeRights(seen: DatabaseSeen): Seen[] {
  const found: Seen[] = [];
  const own = `alter database ${seen.database} owner to ${seen.user}`;
  if (!seen.may_create) found.push(problem(`the user ${seen.user} may not make tables in the schema public`, own));
  if (!seen.may_serve_orgs)
    found.push(problem(`the user ${seen.user} may not become pg_database_owner, the role that keeps orgs apart`, own));
  return found;
}

function judgeConnections({ connections_max, connections_of_others }: DatabaseSeen, { database_connections }: Limits): Seen[] {
  const wanted = database_connections + CONNECTIONS_BESIDE_POOL;
  const left = connections_max - connections_of_others;
  const seen = `${wanted} connections are wanted by one server; PostgreSQL has ${connections_max}, others hold ${connections_of_others} of them`;
  if (wanted > connections_max)
    return [problem(seen, "raise max_connections (or the limit of role or database), or lower --limit database_connections")];
  return wanted > left ? [warning(seen, "raise max_connections, or lower --limit database_connections")] : [];
}

function judgeClock({ clock_ahead_ms, round_trip_ms }: DatabaseSeen): Seen[] {
  const found: Seen[] = [];
  // What we measure is exact to half a round trip.
  const off = Math.max(0, Math.abs(clock_ahead_ms) - round_trip_ms / 2);
  const seen = `its clock is ${shownTime(Math.abs(clock_ahead_ms))} ${clock_ahead_ms > 0 ? "ahead of" : "behind"} this machine's`;
  if (off > CLOCK_PROBLEM_MS)
    found.push(problem(seen, "set both by NTP (timedatectl): deployments would begin, and sessions end, at the wrong time"));
  else if (off > CLOCK_WARNING_MS) found.push(warning(seen, "set both by NTP (timedatectl)"));
  return found;
}

export function judgeMigrations({ pending, unknown, is_new }: MigrationsSeen): Seen {
  if (unknown.length > 0)
    return problem(
      `the database belongs to a newer version: it has ${unknown.join(", ")}, which this program does not know`,
      "start the newer version, or restore a backup from before it",
    );
  if (is_new) return ok("the database is empty; the first start fills it");
  if (pending.length === 0) return ok("up to date");
  return warning(`${pending.length} to do: ${pending.join(", ")}`, "roamfleet backup first; the next start runs them");
}
