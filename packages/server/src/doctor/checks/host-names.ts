import type { Settings } from "../../config.ts";
import { connect } from "../../engines/db/index.ts";
import { areHostsKnown } from "../../kernel/host-names.ts";
import { listRefusedHosts } from "../../link/index.ts";
import type { Check, DoctorContext } from "../context.ts";
import { ok, type Seen, skipped, warning } from "../finding.ts";

const silent = { info() {}, warn() {}, error() {} };
/** Refusals older than this are not reported. */
const REFUSED_MS = 86_400_000;

export const hostNamesCheck: Check = {
  name: "host names",
  async check(context) {
    const { settings, wrong_parts } = context;
    if (wrong_parts.has("host names") || wrong_parts.has("proxies")) return [skipped("see settings")];
    return judgeHostNames(settings, await refusedHosts(context));
  },
};

/** Returns no hosts if the database is not running or of another version. */
async function refusedHosts({ wrong_parts, database, clock }: DoctorContext): Promise<string[]> {
  if (wrong_parts.has("database")) return [];
  const reached = await database();
  if (!("seen" in reached) || !reached.seen.may_serve_orgs) return [];
  const { migrations } = reached.seen;
  if (migrations === undefined || migrations.is_new || migrations.pending.length + migrations.unknown.length > 0) return [];
  const db = await connect({ connection: reached.address, pool_size: 1, clock, log: silent });
  try {
    return await listRefusedHosts(db, new Date(clock.now().getTime() - REFUSED_MS));
  } finally {
    await db.close();
  }
}

export function judgeHostNames(settings: Pick<Settings, "host_names" | "behind_proxy">, refused: readonly string[]): Seen[] {
  const { host_names = [] } = settings;
  const found: Seen[] = [];
  if (!areHostsKnown(settings))
    found.push(
      warning(
        "not set: behind a proxy, a robot's signature for another server is accepted if that server relays it",
        "set the hosts that robots use as --server: --host-name NAME or ROAMFLEET_HOST_NAMES",
      ),
    );
  if (refused.length > 0)
    found.push(
      warning(
        `within a day, robots were refused that signed for ${refused.join(", ")}`,
        "if that is a name of this server, add it with --host-name or ROAMFLEET_HOST_NAMES; otherwise a server with that name relays robots' requests",
      ),
    );
  if (found.length > 0) return found;
  return [ok(host_names.length > 0 ? host_names.join(", ") : "the names of the certificate and of --listen")];
}
