import { networkInterfaces } from "node:os";

export interface HostPort {
  host: string;
  port: number;
}

const WILDCARDS = new Set(["0.0.0.0", "::"]);

/** Formats `host:port`, with an IPv6 address in brackets. */
export const addressText = ({ host, port }: HostPort): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** Parses the format of `addressText`; undefined if invalid. */
export function parseAddress(text: string): HostPort | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || port > 65_535 ? undefined : { host, port };
}

/** Returns the host by which other machines likely reach a listener: for a wildcard, the first IPv4 address that is not loopback. */
export function reachableHost(listens_on: string, interfaces = networkInterfaces()): string {
  if (!WILDCARDS.has(listens_on)) return listens_on;
  const found = Object.values(interfaces)
    .flat()
    .find((one) => one !== undefined && !one.internal && one.family === "IPv4");
  return found?.address ?? "127.0.0.1";
}
