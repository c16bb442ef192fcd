import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { channelBinding } from "@roamfleet/protocol/link";
import { clientAddress, hostOf, type Networks, siteOf } from "./networks.ts";

/** The connection that a signature must match, as the server sees it. */
export interface BoundChannel {
  /** "" without TLS and below TLS 1.3. Undefined behind a proxy that terminates TLS: then the robot's channel is accepted. */
  channel: string | undefined;
  /** The connection uses TLS up to this server, so a channel is required. */
  is_tls?: boolean;
}

export const channelOf = ({ socket }: Pick<IncomingMessage, "socket">, proxies: Networks): BoundChannel => ({
  channel: proxies.has(socket.remoteAddress) ? undefined : channelBinding(socket),
  is_tls: socket instanceof TLSSocket,
});

/** Returns the address that a robot's link comes from, and the host that it is addressed to. */
export const linkSource = (
  request: Pick<IncomingMessage, "headers" | "socket">,
  proxies: Networks,
): BoundChannel & { ip: string; host: string } => ({
  ip: clientAddress(request, proxies),
  host: hostOf(siteOf(request, proxies)),
  ...channelOf(request, proxies),
});

/** Returns why a signature for the channel `signed` is invalid on this connection; undefined if it is valid. */
export function channelRefusal({ channel, is_tls }: BoundChannel, signed: string): string | undefined {
  if (channel === undefined) return undefined;
  if (channel === "" && is_tls === true) return "this connection has no TLS channel to sign for: TLS 1.3 is required";
  if (channel === signed) return undefined;
  return (
    "the signature was made for another TLS channel than this connection's: the robot connected to something in between " +
    "(the server knows its proxies by --behind-proxy)"
  );
}
