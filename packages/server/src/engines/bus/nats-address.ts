/** Where a NATS is, who we are there, and under which name our subjects stand. */
export interface NatsAddress {
  /** Each is tried in turn. */
  servers: readonly { host: string; port: number }[];
  /** Refuse a server that speaks plain. */
  tls: boolean;
  credentials: { user: string; pass: string } | { token: string } | undefined;
  /** First word of every subject: installations that share a NATS have different ones. */
  prefix: string;
}

const DEFAULT_PORT = 4222;
const DEFAULT_PREFIX = "roamfleet";
const SERVERS_MAX = 16;

/**
 * Reads `nats://[user:password@|token@]host[:port][,host[:port]]…[/prefix]`, or the same with `tls://`. Undefined when it is
 * something else: whoever says so must not repeat it, there may be a password in it.
 */
export function parseNatsUrl(url: string): NatsAddress | undefined {
  // Greedy: a password may hold what separates the rest.
  const match = /^(nats|tls):\/\/(?:(.*)@)?([^@/?#]+)(?:\/([A-Za-z0-9_-]{0,64}))?$/.exec(url);
  const servers = match?.[3]?.split(",").map(parseServer) ?? [];
  const known = servers.filter((server) => server !== undefined);
  if (match === null || known.length !== servers.length || servers.length > SERVERS_MAX) return undefined;
  try {
    return { servers: known, tls: match[1] === "tls", credentials: parseCredentials(match[2]), prefix: match[4] || DEFAULT_PREFIX };
  } catch {
    // A percent sign that encodes nothing.
    return undefined;
  }
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/i;

/**
 * What protects the bus too little: `credentials`, `tls`, or both as one text; undefined when both are given or NATS is on this
 * machine. Without credentials anyone on the network may publish hints, and without TLS the password crosses it in the clear.
 */
export function exposureOf({ servers, credentials, tls }: NatsAddress): string | undefined {
  if (servers.every(({ host }) => LOOPBACK.test(host))) return undefined;
  const missing = [...(credentials === undefined ? ["credentials"] : []), ...(tls ? [] : ["tls"])];
  return missing.length === 0 ? undefined : missing.join(" and ");
}

function parseServer(text: string): NatsAddress["servers"][number] | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/i.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? DEFAULT_PORT);
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port };
}

function parseCredentials(text: string | undefined): NatsAddress["credentials"] {
  if (text === undefined || text === "") return undefined;
  const colon = text.indexOf(":");
  if (colon < 0) return { token: decodeURIComponent(text) };
  return { user: decodeURIComponent(text.slice(0, colon)), pass: decodeURIComponent(text.slice(colon + 1)) };
}

/**
 * One of our subjects as NATS knows it, one to one: letters, digits, `_`, `-` and single dots stay, everything else is `=` and
 * its bytes in hex. NATS has wildcards, and refuses spaces and empty words.
 */
export function natsSubject(prefix: string, subject: string): string {
  const legal = subject.replace(/[^A-Za-z0-9_.-]|^\.|\.$|\.(?=\.)/gu, (one) => Buffer.from(one).toString("hex").replace(/../g, "=$&"));
  return `${prefix}.hint.${legal === "" ? "=" : legal}`;
}
