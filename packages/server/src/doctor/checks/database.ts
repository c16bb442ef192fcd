import type { Limits } from "../../config.ts";
import type { DatabaseSeen, MigrationsSeen } from "../../engines/db/index.ts";
import {
  type Check,
  type DoctorContext,
  ok,
  problem,
  said,
  secretsOf,
  type Seen,
  shownTime,
  shownUrl,
  skipped,
  warning,
} from "../finding.ts";

const VERSION_MIN = 150_000;
const CLOCK_WARNING_MS = 1_000;
const CLOCK_PROBLEM_MS = 60_000;
/** Round trips above this are reported as slow, because a request needs two to five sequential queries. */
const ROUND_TRIP_SLOW_MS = 5;
/** Connections needed in addition to the pool: one for migrations and one for an administrator. */
const CONNECTIONS_BESIDE_POOL = 2;

export const databaseCheck: Check = {
  name: "database",
  async check({ settings, database }) {
    const reached = await database();
    if ("absent" in reached) return [skipped(reached.absent)];
    if ("failure" in reached) return [evaluateFailure(reached.failure, settings.database_url)];
    return evaluateDatabase(reached.seen, settings);
  },
};

export const migrationsCheck: Check = {
  name: "migrations",
  async check({ database }) {
    const reached = await database();
    if (!("seen" in reached)) return [skipped("the database is unreachable")];
    const { migrations, user } = reached.seen;
    return [
      migrations === undefined ? skipped(`the user ${user} cannot read the migrations in the database`) : evaluateMigrations(migrations),
    ];
  },
};

const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "check that PostgreSQL runs there and that its listen_addresses include that address",
  ENOTFOUND: "no such host: correct DATABASE_URL",
  EAI_AGAIN: "the DNS lookup failed temporarily",
  ETIMEDOUT: "a firewall may block the connection",
  EHOSTUNREACH: "there is no route to that host",
  ENOENT: "the socket does not exist: check that PostgreSQL runs",
  ERR_INVALID_URL: "expected postgres://USER:PASSWORD@HOST:5432/DATABASE, with special characters percent-encoded (@ is %40)",
  "28P01": "correct user or password in DATABASE_URL; special characters must be percent-encoded (@ is %40)",
  "28000": "PostgreSQL's pg_hba.conf must allow this user from this machine, perhaps only with TLS: ?sslmode=require",
  "3D000": "create the database: create database roamfleet owner roamfleet",
  "53300": "max_connections is exhausted: raise it, or close other connections",
  "57P03": "PostgreSQL is starting or stopping: try again",
  "42501": "the user may not connect to this database: grant connect, or make the user the owner of the database",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the certificate of PostgreSQL is self-signed: add ?sslrootcert=FILE to trust it",
  SELF_SIGNED_CERT_IN_CHAIN: "the certificate authority of PostgreSQL is unknown: add ?sslrootcert=FILE to trust it",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "the certificate authority of PostgreSQL is unknown: add ?sslrootcert=FILE to trust it",
  ERR_TLS_CERT_ALTNAME_INVALID: "use the host name in the certificate of PostgreSQL",
  CERT_HAS_EXPIRED: "the certificate of PostgreSQL has expired",
};

/** Returns why connecting failed, without the password. */
export function evaluateFailure(error: unknown, database_url: string | undefined): Seen {
  const codes = [error, ...(error instanceof AggregateError ? (error.errors as unknown[]) : [])].map(
    (one) => (one as { code?: unknown }).code,
  );
  const code = codes.find((one) => typeof one === "string");
  const where = database_url === undefined ? "the embedded database" : shownUrl(database_url);
  const reason = said(error, secretsOf(database_url));
  return problem(`${where}: ${reason}`, HINTS[code ?? ""] ?? "check DATABASE_URL");
}

export function evaluateDatabase(
  seen: DatabaseSeen,
  { limits, database_url }: Pick<DoctorContext["settings"], "limits" | "database_url">,
): Seen[] {
  const found = [...evaluateServer(seen), ...evaluateRights(seen), ...evaluateConnections(seen, limits), ...evaluateClock(seen)];
  const is_far = database_url !== undefined && !/^postgres(ql)?:\/\/([^@/]*@)?(localhost|127\.|\[::1\]|\/|\?)/.test(database_url);
  if (is_far && seen.round_trip_ms > ROUND_TRIP_SLOW_MS)
    found.push(
      warning(
        `a round trip to the database takes ${shownTime(seen.round_trip_ms)}, and every request needs several`,
        "run server and database in the same data center",
      ),
    );
  if (is_far && !seen.is_encrypted)
    found.push(warning("the connection is not encrypted", "append ?sslmode=verify-full to DATABASE_URL, unless the network is private"));
  const where = database_url === undefined ? "embedded" : shownUrl(database_url);
  const summary = `${where}, PostgreSQL ${seen.version_name.split(" ", 1)[0]}, ${shownTime(seen.round_trip_ms)} round trip`;
  return [ok(summary), ...found];
}

function evaluateServer(seen: DatabaseSeen): Seen[] {
  const found: Seen[] = [];
  if (seen.version < VERSION_MIN)
    found.push(
      problem(
        `PostgreSQL ${seen.version_name}; 15 or newer is needed`,
        "upgrade PostgreSQL, or unset DATABASE_URL to use the embedded database",
      ),
    );
  if (seen.encoding !== "UTF8")
    found.push(
      problem(
        `the encoding of the database is ${seen.encoding}`,
        `create another database: create database ${seen.database} encoding 'UTF8' template template0`,
      ),
    );
  if (seen.read_only === "replica")
    found.push(
      problem(
        "the database server is a read-only replica",
        "use the primary in DATABASE_URL; with several hosts append ?target_session_attrs=read-write if your pooler supports it",
      ),
    );
  if (seen.read_only === "settings")
    found.push(problem("sessions of the database are read-only", `alter database ${seen.database} reset default_transaction_read_only`));
  for (const [name, value] of Object.entries(seen.durability)) {
    if (value !== "off") continue;
    found.push(
      problem(
        `${name} is off: a crash loses acknowledged writes or the whole database`,
        `alter system set ${name} = on; select pg_reload_conf()`,
      ),
    );
  }
  return found;
}

function evaluateRights(seen: DatabaseSeen): Seen[] {
  const found: Seen[] = [];
  const own = `alter database ${seen.database} owner to ${seen.user}`;
  if (!seen.may_create) found.push(problem(`the user ${seen.user} may not create tables in the schema public`, own));
  if (!seen.may_serve_orgs)
    found.push(problem(`the user ${seen.user} may not switch to pg_database_owner, the role that isolates orgs`, own));
  return found;
}

function evaluateConnections({ connections_max, connections_of_others }: DatabaseSeen, { database_connections }: Limits): Seen[] {
  const wanted = database_connections + CONNECTIONS_BESIDE_POOL;
  const left = connections_max - connections_of_others;
  const seen = `${wanted} connections are needed by one server; PostgreSQL has ${connections_max}, other programs use ${connections_of_others} of them`;
  if (wanted > connections_max)
    return [problem(seen, "raise max_connections (or the limit of role or database), or lower --limit database_connections")];
  return wanted > left ? [warning(seen, "raise max_connections, or lower --limit database_connections")] : [];
}

function evaluateClock({ clock_ahead_ms, round_trip_ms }: DatabaseSeen): Seen[] {
  const found: Seen[] = [];
  // The clock difference is measured with an error of up to half a round trip.
  const off = Math.max(0, Math.abs(clock_ahead_ms) - round_trip_ms / 2);
  const seen = `the database's clock is ${shownTime(Math.abs(clock_ahead_ms))} ${clock_ahead_ms > 0 ? "ahead of" : "behind"} this machine's`;
  if (off > CLOCK_PROBLEM_MS)
    found.push(problem(seen, "set both clocks by NTP (timedatectl): otherwise deployments start and sessions end at the wrong time"));
  else if (off > CLOCK_WARNING_MS) found.push(warning(seen, "set both clocks by NTP (timedatectl)"));
  return found;
}

export function evaluateMigrations({ pending, unknown, is_new }: MigrationsSeen): Seen {
  if (unknown.length > 0)
    return problem(
      `the database belongs to a newer version: it has migrations that this version lacks: ${unknown.join(", ")}`,
      "start the newer version, or restore a backup made before the upgrade",
    );
  if (is_new) return ok("the database is empty; the first start migrates it");
  if (pending.length === 0) return ok("up to date");
  return warning(`${pending.length} pending: ${pending.join(", ")}`, "run roamfleet backup first; the next start applies them");
}
