import { randomBytes } from "node:crypto";
import { type Clock, within } from "@roamfleet/clock";
import { greets, type NatsAddress } from "./nats-address.ts";

/** Result of checking one server of a NATS address. */
export interface NatsSeen {
  /** `host:port` */
  server: string;
  /** Why connecting failed, in a few words. If set, the other fields except `server` have no meaning. */
  failure?: { refused: boolean; reason: string };
  version: string;
  /** Maximum message size of the server in bytes. */
  max_payload: number;
  wants_credentials: boolean;
  is_encrypted: boolean;
  /** Error texts of the server about denied permissions on Roamfleet's subjects. */
  forbidden: readonly string[];
  /** Time from publishing a message to receiving it; undefined if it did not arrive. */
  round_trip_ms: number | undefined;
}

interface ProbeOptions {
  clock: Pick<Clock, "monotonic" | "setTimer" | "sleep">;
  timeout_ms: number;
  signal: AbortSignal;
}

/** Checks every server of the address: connects, then publishes a message on a random subject and receives it. Never rejects. */
export async function probeNats(address: NatsAddress, options: ProbeOptions): Promise<NatsSeen[]> {
  return await Promise.all(address.servers.map((server) => probeServer(address, server, options)));
}

async function probeServer(address: NatsAddress, { host, port }: NatsAddress["servers"][number], options: ProbeOptions): Promise<NatsSeen> {
  const at = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  const nothing = { server: at, version: "", max_payload: 0, wants_credentials: false, is_encrypted: false, forbidden: [] };
  try {
    return { ...nothing, ...(await converse(address, { host, port, at }, options)) };
  } catch (error) {
    const { name = "", message = "" } = error instanceof Error ? error : {};
    const refused = name === "AuthorizationError" || name === "UserAuthenticationExpiredError";
    return { ...nothing, failure: { refused, reason: message || "the connection ended" }, round_trip_ms: undefined };
  }
}

async function converse(
  address: NatsAddress,
  { host, port, at }: { host: string; port: number; at: string },
  { clock, timeout_ms, signal }: ProbeOptions,
): Promise<Omit<NatsSeen, "server">> {
  const { connect } = await import("@nats-io/transport-node");
  await greets({ host, port }, { clock, timeout_ms, signal });
  const connection = await connect({
    servers: [at],
    name: "roamfleet doctor",
    reconnect: false,
    ignoreClusterUpdates: true,
    timeout: timeout_ms,
    ...address.credentials,
    ...(address.tls ? { tls: {} } : {}),
  });
  const cut = (): void => void connection.close();
  signal.addEventListener("abort", cut, { once: true });
  try {
    const forbidden: string[] = [];
    const heard = Promise.withResolvers<void>();
    void (async () => {
      for await (const status of connection.status()) {
        if (status.type !== "error") continue;
        forbidden.push(status.error.message);
        heard.resolve();
      }
    })();
    const subject = `${address.prefix}.doctor.${randomBytes(9).toString("base64url")}`;
    const since = clock.monotonic();
    let answered: number | undefined;
    connection.subscribe(subject, {
      max: 1,
      callback: (error) => {
        if (error === null) answered = clock.monotonic();
        heard.resolve();
      },
    });
    connection.publish(subject, "");
    await within(clock, timeout_ms, heard.promise, signal);
    // The server reports denied permissions before it responds to this flush, so `forbidden` is complete afterwards.
    await connection.flush().catch(() => {});
    const { info } = connection;
    return {
      version: info?.version ?? "",
      max_payload: info?.max_payload ?? 0,
      wants_credentials: info?.auth_required === true,
      is_encrypted: address.tls || info?.tls_required === true,
      forbidden,
      round_trip_ms: answered === undefined ? undefined : answered - since,
    };
  } finally {
    signal.removeEventListener("abort", cut);
    await connection.close().catch(() => {});
  }
}
