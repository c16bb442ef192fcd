import type { Clock } from "@roamfleet/clock";
import type { Channel, StreamSource } from "@roamfleet/protocol/link";
import { connectTo, reasonOf, type Target } from "./connect.ts";
import { ForwardRules, isPort } from "./rules.ts";
import { carryTunnel, Outward } from "./tunnel.ts";

const CLOSE_REFUSED = 4410;
const HOST_CHARACTERS_MAX = 253;

export interface ForwardOptions {
  /** Rules of `forward.allow`; throws Error if one is malformed. */
  allow: readonly string[];
  clock: Pick<Clock, "setTimer">;
}

/** TCP tunnels to services that this robot can reach, one connection per channel. */
export function forwardSource({ allow, clock }: ForwardOptions): StreamSource {
  const rules = new ForwardRules(allow);
  return (channel, params) => {
    const target = targetOf(params);
    if (target === undefined) return channel.reset(CLOSE_REFUSED, "a tunnel needs a port from 1 to 65535, and a host as text");
    return open(channel, target, rules, clock);
  };
}

function targetOf(params: unknown): Target | undefined {
  const { host = "127.0.0.1", port } = (params ?? {}) as { host?: unknown; port?: unknown };
  const is_host = typeof host === "string" && host.length <= HOST_CHARACTERS_MAX && /^[\w.:%-]+$/.test(host);
  return is_host && isPort(port) ? { host, port } : undefined;
}

async function open(channel: Channel, target: Target, rules: ForwardRules, clock: ForwardOptions["clock"]): Promise<void> {
  const outward = new Outward(channel);
  let socket;
  try {
    socket = await connectTo(target, rules, clock, (bytes) => outward.take(bytes));
  } catch (error) {
    return channel.reset(CLOSE_REFUSED, reasonOf(error, target));
  }
  await carryTunnel(channel, socket, outward, (error) => reasonOf(error, target));
}
