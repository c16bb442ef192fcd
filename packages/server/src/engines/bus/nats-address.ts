import { createConnection } from "node:net";
import type { Clock } from "@roamfleet/clock";

/** Address of a NATS installation: its servers, our credentials and the prefix of our subjects. */
export interface NatsAddress {
  /** Servers to try in turn until a connection succeeds. */
  servers: readonly { host: string; port: number }[];
  /** Whether to refuse servers without TLS. */
  tls: boolean;
  credentials: { user: string; pass: string } | { token: string } | undefined;
  /** First part of every subject. Roamfleet installations that share a NATS use different prefixes. */
  prefix: string;
}

const DEFAULT_PORT = 4222;
const DEFAULT_PREFIX = "roamfleet";
const SERVERS_MAX = 16;

/**
 * Parses `nats://[user:password@|token@]host[:port][,host[:port]]…[/prefix]`, or the same with `tls://`. Returns undefined if it is
 * invalid. Error messages must not repeat the URL, because it may contain a password.
 */
export function parseNatsUrl(url: string): NatsAddress | undefined {
  // Matches up to the last `@`, because a password may contain `@`, `:` and `/`.
  const match = /^(nats|tls):\/\/(?:(.*)@)?([^@/?#]+)(?:\/([A-Za-z0-9_-]{0,64}))?$/.exec(url);
  const servers = match?.[3]?.split(",").map(parseServer) ?? [];
  const known = servers.filter((server) => server !== undefined);
  if (match === null || known.length !== servers.length || servers.length > SERVERS_MAX) return undefined;
  try {
    return { servers: known, tls: match[1] === "tls", credentials: parseCredentials(match[2]), prefix: match[4] || DEFAULT_PREFIX };
  } catch {
    // The percent-encoding in the credentials is invalid.
    return undefined;
  }
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/i;

/**
 * Returns which protection of the bus is missing: `credentials`, `tls` or `credentials and tls`. Returns undefined if both are set or if
 * NATS runs on this machine. Without credentials, anyone on the network can publish hints. Without TLS, the password is sent unencrypted.
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
 * Encodes a subject for NATS so that different subjects stay different. Letters, digits, `_`, `-` and single dots are unchanged, and every
 * other byte becomes `=` and its hex value. This is needed because NATS has wildcards and refuses spaces and empty parts.
 */
export function natsSubject(prefix: string, subject: string): string {
  const legal = subject.replace(/[^A-Za-z0-9_.-]|^\.|\.$|\.(?=\.)/gu, (one) => Buffer.from(one).toString("hex").replace(/../g, "=$&"));
  return `${prefix}.hint.${legal === "" ? "=" : legal}`;
}

/**
 * Resolves when the server has sent its greeting, which NATS sends before authentication. Rejects with a readable message on an error or
 * after the timeout. Call it before the NATS client connects, because the client never closes its connection to a frozen server.
 */
export function greets(
  { host, port }: { host: string; port: number },
  { clock, timeout_ms, signal }: { clock: Pick<Clock, "setTimer">; timeout_ms: number; signal: AbortSignal },
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = createConnection({ host, port, signal });
  const late = clock.setTimer(timeout_ms, () => reject(new Error("does not answer")));
  socket.once("data", () => resolve());
  socket.on("error", (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? error.message)));
  socket.once("close", () => reject(new Error("closed the connection")));
  return promise.finally(() => {
    late.cancel();
    socket.destroy();
  });
}
