import { type NatsSeen, probeNats } from "../../engines/bus/index.ts";
import type { Settings } from "../../config.ts";
import { type Check, ok, problem, type Seen, shownBytes, shownTime, skipped, warning } from "../finding.ts";

const VERSION_MIN = [2, 9] as const;
/** Minimum message size that NATS must allow: the size of the largest message of one transaction, with its envelope. */
const PAYLOAD_BYTES_MIN = 1_000_000;
const ROUND_TRIP_SLOW_MS = 50;
const LOOPBACK = /^(localhost|127\.|\[::1\])/;

export const busCheck: Check = {
  name: "bus",
  async check({ settings, wrong_parts, clock, timeout_ms, signal }) {
    if (wrong_parts.has("bus")) return [skipped("not checked: first fix the problem in settings")];
    if (settings.bus === undefined) return [skipped("ROAMFLEET_BUS_URL is not set, which is correct for a single server")];
    // Times out before the check does. Otherwise a NATS server that does not respond would hide the findings about the other servers.
    const seen = await probeNats(settings.bus, { clock, timeout_ms: timeout_ms * 0.8, signal });
    const use = wrong_parts.has("database") ? [] : evaluateUse(settings);
    return [...use, ...evaluateBus(seen, settings.bus.credentials !== undefined)];
  },
};

function evaluateUse({ database_url }: Settings): Seen[] {
  if (database_url !== undefined) return [];
  return [
    warning(
      "a bus connects servers on one database, but this server uses the embedded database",
      "set DATABASE_URL, or unset ROAMFLEET_BUS_URL",
    ),
  ];
}

export function evaluateBus(servers: readonly NatsSeen[], has_credentials: boolean): Seen[] {
  const reached = servers.filter(({ failure }) => failure === undefined);
  const found = servers.flatMap((server) =>
    server.failure === undefined ? evaluateServer(server, has_credentials) : [evaluateFailure(server, reached.length > 0)],
  );
  if (found.some(({ status }) => status === "problem") || reached.length === 0) return found;
  const said = reached.map((server) => `${server.server}, NATS ${server.version}, ${shownTime(server.round_trip_ms ?? 0)} round trip`);
  return [ok(said.join("; ")), ...found];
}

function evaluateFailure({ server, failure }: NatsSeen, others_are_there: boolean): Seen {
  if (failure?.refused === true)
    return problem(
      `${server} refuses the credentials in ROAMFLEET_BUS_URL`,
      "correct the credentials; special characters in user and password must be percent-encoded (@ is %40)",
    );
  const seen = `${server} ${reasonOf(failure?.reason ?? "")}`;
  if (others_are_there)
    return warning(seen, "the other NATS servers respond; remove this one from ROAMFLEET_BUS_URL if it no longer exists");
  return problem(
    seen,
    "check that nats-server runs there and that firewalls allow port 4222; until NATS is reachable, changes by other servers arrive minutes late",
  );
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "cannot be reached: nothing listens there",
  ENOTFOUND: "cannot be reached: there is no such host",
  ETIMEDOUT: "cannot be reached: no answer",
  EHOSTUNREACH: "cannot be reached: no route to host",
};
const reasonOf = (reason: string): string => REASONS[reason] ?? (/^(does not answer|closed)/.test(reason) ? reason : `fails: ${reason}`);

function evaluateServer(seen: NatsSeen, has_credentials: boolean): Seen[] {
  const { server, version, max_payload, forbidden, round_trip_ms } = seen;
  const found: Seen[] = [];
  if (!isAtLeast(version))
    found.push(problem(`${server} is NATS ${version}; ${VERSION_MIN.join(".")} or newer is needed`, "upgrade nats-server"));
  for (const words of new Set(forbidden))
    found.push(
      problem(
        `${server} reports: ${words}`,
        "allow the user in ROAMFLEET_BUS_URL to publish and subscribe to the subjects <prefix>.>, where <prefix> is the path of ROAMFLEET_BUS_URL (default: roamfleet)",
      ),
    );
  if (forbidden.length === 0 && round_trip_ms === undefined)
    found.push(problem(`${server} did not deliver a test message`, "the log of nats-server shows the reason"));
  if (max_payload < PAYLOAD_BYTES_MIN)
    found.push(
      warning(
        `${server} accepts messages up to ${shownBytes(max_payload)}: after a larger message, every server reloads its state`,
        "set max_payload to its default, 1MB, in the configuration of nats-server",
      ),
    );
  if (has_credentials && !seen.wants_credentials)
    found.push(
      warning(
        `${server} accepts connections without credentials`,
        "add an authorization section to its configuration; without it, any client can make servers reload their state",
      ),
    );
  if (has_credentials && !seen.is_encrypted && !LOOPBACK.test(server))
    found.push(warning(`credentials are sent to ${server} unencrypted`, "use tls:// instead of nats://, unless the network is private"));
  if (round_trip_ms !== undefined && round_trip_ms > ROUND_TRIP_SLOW_MS)
    found.push(warning(`a message through ${server} takes ${shownTime(round_trip_ms)}`, "run servers and NATS in the same data center"));
  return found;
}

/** Returns whether a version such as `2.10.3-beta` is new enough. */
function isAtLeast(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  return major > VERSION_MIN[0] || (major === VERSION_MIN[0] && minor >= VERSION_MIN[1]);
}
