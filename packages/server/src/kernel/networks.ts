import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import { TLSSocket } from "node:tls";
import { channelBinding } from "@roamfleet/protocol/link";

/** A set of address ranges, such as those of the trusted proxies, whose forwarding headers are used. */
export class Networks {
  readonly #list = new BlockList();
  readonly size: number;

  /** Takes the result of `parseNetworks`. */
  constructor(ranges: readonly string[]) {
    this.size = ranges.length;
    for (const range of ranges) {
      const [address = "", bits] = range.split("/");
      const family = isIP(address) === 6 ? "ipv6" : "ipv4";
      this.#list.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
    }
  }

  has(address: string | undefined): boolean {
    if (address === undefined) return false;
    const plain = plainAddress(address);
    const family = isIP(plain);
    return family !== 0 && this.#list.check(plain, family === 6 ? "ipv6" : "ipv4");
  }
}

/** Converts an IPv4-mapped IPv6 address, which a dual-stack socket reports, to IPv4. Returns other addresses unchanged. */
const plainAddress = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, "");

const IPV6_GROUPS = 8;
/**
 * Groups of an IPv6 address that identify its /64 network. Providers assign at least a /64 to each customer, so one machine can use 2^64
 * addresses.
 */
const IPV6_NETWORK_GROUPS = 4;

/** Returns the key by which limits count an address: an IPv4 address, or the /64 of an IPv6 address. Other text is returned unchanged. */
export function networkOf(address: string): string {
  const plain = plainAddress(address.split("%", 1)[0] ?? "");
  if (isIP(plain) !== 6) return plain;
  const [head = "", tail] = (URL.parse(`http://[${plain}]`)?.hostname ?? "").slice(1, -1).split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...before, ...Array.from({ length: IPV6_GROUPS - before.length - after.length }, () => "0"), ...after];
  const [high, low] = groups.slice(-2).map((group) => Number.parseInt(group, 16));
  if (groups.slice(0, 5).every((group) => group === "0") && groups[5] === "ffff" && high !== undefined && low !== undefined)
    return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
  return `${groups.slice(0, IPV6_NETWORK_GROUPS).join(":")}::/64`;
}

/** Parses `10.0.0.0/8,127.0.0.1`. Returns undefined if a part is neither an address nor a CIDR range. */
export function parseNetworks(text: string): string[] | undefined {
  const parts = text.split(",").map((part) => part.trim());
  return parts.every(isRange) ? parts : undefined;
}

function isRange(text: string): boolean {
  const [address = "", bits, ...more] = text.split("/");
  const family = isIP(address);
  if (family === 0 || address.includes("%") || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32));
}

/** Scheme and origin of this server, as the browser that sent a request sees them. */
export interface Site {
  /** True if the client used TLS, either to this server or to the proxy in front of it. */
  secure: boolean;
  /** Origin of the pages of this server, as in the `Origin` header; undefined if the request has no host. */
  origin: string | undefined;
}

/**
 * Returns the site of a request. If a trusted proxy sends no X-Forwarded-Proto, its clients are assumed to use TLS, because a proxy usually
 * provides TLS.
 */
export function siteOf({ headers, socket }: Pick<IncomingMessage, "headers" | "socket">, proxies: Networks): Site {
  const by_proxy = proxies.has(socket.remoteAddress);
  const forwarded = (name: string): string | undefined => (by_proxy ? lastOf(headers[name]) : undefined);
  const secure = by_proxy ? forwarded("x-forwarded-proto") !== "http" : (socket as Partial<TLSSocket>).encrypted === true;
  const host = forwarded("x-forwarded-host") ?? headers.host;
  const origin = host === undefined || /[/?#@\\\s]/.test(host) ? undefined : URL.parse(`${secure ? "https" : "http"}://${host}`)?.origin;
  return { secure, origin };
}

/** Returns the host and port of the server as the request names it, without the scheme's default port; "" if it names none. */
export const hostOf = (site: Site): string => (site.origin === undefined ? "" : new URL(site.origin).host);

/** Returns the last of several comma-separated values, which the nearest proxy wrote. */
const lastOf = (value: string | string[] | undefined): string | undefined =>
  (Array.isArray(value) ? value.join(",") : value)?.split(",").at(-1)?.trim() || undefined;

/**
 * Returns the client address: the socket's, or the last one in X-Forwarded-For that is not a trusted proxy. The client itself may have
 * written all addresses before that one.
 */
export function clientAddress(request: Pick<IncomingMessage, "headers" | "socket">, proxies: Networks): string {
  let address = request.socket.remoteAddress ?? "";
  const named = request.headers["x-forwarded-for"];
  const hops = (Array.isArray(named) ? named.join(",") : (named ?? "")).split(",").map((hop) => hop.trim());
  for (const hop of hops.toReversed()) {
    if (!proxies.has(address) || isIP(hop) === 0) break;
    address = hop;
  }
  return address;
}

/** The TLS channel that a robot's signature must match, as the server sees the connection. */
export interface BoundChannel {
  /**
   * Channel binding: "" without TLS or below TLS 1.3. Undefined behind a proxy that terminates TLS: any channel that the robot signed is
   * accepted.
   */
  channel: string | undefined;
  /** The connection uses TLS up to this server, so a channel is required. */
  is_tls?: boolean;
}

export const channelOf = ({ socket }: Pick<IncomingMessage, "socket">, proxies: Networks): BoundChannel => ({
  channel: proxies.has(socket.remoteAddress) ? undefined : channelBinding(socket),
  is_tls: socket instanceof TLSSocket,
});

/** Returns the client address of a robot's link, and the host in its upgrade request. */
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
    "the signature was made for another TLS channel than this connection's: something between the robot and this server ends TLS. " +
    "If it is your proxy, add its address to --behind-proxy"
  );
}
