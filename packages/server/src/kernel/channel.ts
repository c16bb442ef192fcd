import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { channelBinding } from "@roamfleet/protocol/link";
import { clientAddress, hostOf, type Networks, siteOf } from "./networks.ts";

/** What a signature must have been made for, as the server sees the connection. */
export interface BoundChannel {
  /** "" without TLS and below TLS 1.3; undefined behind a proxy, which ends TLS: the robot's word is taken. */
  channel: string | undefined;
  /** The connection reached this server by TLS, so there must be a channel. */
  is_tls?: boolean;
}

export const channelOf = ({ socket }: Pick<IncomingMessage, "socket">, proxies: Networks): BoundChannel => ({
  channel: proxies.has(socket.remoteAddress) ? undefined : channelBinding(socket),
  is_tls: socket instanceof TLSSocket,
});

/** Where a robot's link comes from, and to which server it is addressed. */
export const linkSource = (
  request: Pick<IncomingMessage, "headers" | "socket">,
  proxies: Networks,
): BoundChannel & { ip: string; host: string } => ({
  ip: clientAddress(request, proxies),
  host: hostOf(siteOf(request, proxies)),
  ...channelOf(request, proxies),
});

/** Why a signature for the channel `signed` does not count on this connection; undefined when it does. */
export function channelRefusal({ channel, is_tls }: BoundChannel, signed: string): string | undefined {
  if (channel === undefined) return undefined;
  if (channel === "" && is_tls === true) return "this connection has no channel to sign for: TLS 1.3 is needed";
  if (channel === signed) return undefined;
  return (
    "the signature was made for another TLS channel than this connection's: the robot connected to something in between " +
    "(the server knows its proxies by --behind-proxy)"
  );
}
