import { Resolver } from "node:dns/promises";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import type { Clock } from "@roamfleet/clock";
import { Networks } from "../../../kernel/networks.ts";

/** Time for the whole request: resolving the name, connecting, sending and receiving the status. */
export const POST_TIMEOUT_MS = 10_000;
const RESPONSE_HEADER_BYTES_MAX = 16_384;

/** IPv4 ranges that are not on the public internet: private, loopback, link-local with metadata services, shared, test and multicast. */
const NOT_PUBLIC_IPV4 = new Networks([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
]);
/** The only IPv6 range of public addresses. */
const PUBLIC_IPV6 = new Networks(["2000::/3"]);
/** Exceptions in it: examples, and Teredo and 6to4, which contain an IPv4 address. */
const NOT_PUBLIC_IPV6 = new Networks(["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]);

/** Returns whether an address is on the public internet, so that tenants may have the server connect to it. */
export const isPublicAddress = (address: string): boolean => {
  const family = isIP(address);
  if (family === 4) return !NOT_PUBLIC_IPV4.has(address);
  return family === 6 && PUBLIC_IPV6.has(address) && !NOT_PUBLIC_IPV6.has(address);
};

/** The result of one attempt. `detail` is shown to the tenant; it contains neither the URL nor text of the receiver. */
export interface Attempt {
  delivered: boolean;
  detail: string;
}

export interface PostContext {
  clock: Pick<Clock, "setTimer">;
  /** Ranges that the operator allows although they are not public. */
  allowed: Networks;
  /** Aborts the request, because the server stops. */
  signal?: AbortSignal;
  /** Resolves a name to all its addresses. */
  resolve?: (host: string) => Promise<string[]>;
}

const RESOLVE_TIMEOUT_MS = 3_000;
const RESOLVE_TRIES = 2;

/**
 * Resolves a name by DNS. `lookup` of node:dns would also read /etc/hosts, but each call blocks a thread of the process until the name server
 * responds, and there are only four.
 */
async function resolveName(host: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: RESOLVE_TIMEOUT_MS, tries: RESOLVE_TRIES });
  const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  return found.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
}

/**
 * Sends one POST request to a URL of a tenant. Resolves the name once, refuses it if any of its addresses is not public, and connects to
 * the address that was checked, so that a second answer of the name server has no effect. Redirects are not followed, and the response's
 * body is not read. Never throws.
 */
export async function guardedPost(
  { clock, allowed, signal, resolve = resolveName }: PostContext,
  { url, headers, body }: { url: string; headers: Readonly<Record<string, string>>; body: string },
): Promise<Attempt> {
  const target = URL.parse(url);
  if (target === null || !/^https?:$/.test(target.protocol)) return failed("the URL is invalid");
  const host = target.hostname.replace(/^\[|\]$/g, "");
  const { promise: expired, resolve: expire } = Promise.withResolvers<Attempt>();
  const timeout = new AbortController();
  const end = (detail: string): void => {
    expire(failed(detail));
    timeout.abort();
  };
  const timer = clock.setTimer(POST_TIMEOUT_MS, () => end("the receiver did not respond in time"));
  const stop = (): void => end("the server stopped");
  signal?.addEventListener("abort", stop);
  if (signal?.aborted === true) stop();
  const attempt = async (): Promise<Attempt> => {
    const addresses = isIP(host) === 0 ? await resolve(host).catch(() => []) : [host];
    const [address] = addresses;
    if (address === undefined) return failed("the host name cannot be resolved");
    if (!addresses.every((each) => isPublicAddress(each) || allowed.has(each))) return failed("the address is not allowed");
    return timeout.signal.aborted ? await expired : await post({ target, address, headers, body, signal: timeout.signal });
  };
  try {
    return await Promise.race([attempt(), expired]);
  } finally {
    timer.cancel();
    signal?.removeEventListener("abort", stop);
  }
}

interface Post {
  target: URL;
  address: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  signal: AbortSignal;
}

async function post({ target, address, headers, body, signal }: Post): Promise<Attempt> {
  const { promise, resolve } = Promise.withResolvers<Attempt>();
  const family = isIP(address);
  const send = target.protocol === "https:" ? httpsRequest : httpRequest;
  const outgoing = send(target, {
    method: "POST",
    agent: false,
    signal,
    maxHeaderSize: RESPONSE_HEADER_BYTES_MAX,
    headers: { "user-agent": "roamfleet", ...headers, "content-length": String(Buffer.byteLength(body)) },
    lookup: (_host, { all }, done) => (all === true ? done(null, [{ address, family }]) : done(null, address, family)),
  });
  outgoing.on("response", (incoming) => {
    const { statusCode = 0 } = incoming;
    incoming.destroy();
    resolve({ delivered: statusCode >= 200 && statusCode < 300, detail: `status ${statusCode}` });
  });
  // The message of an error may contain the address or the name; its code does not.
  outgoing.on("error", (error: NodeJS.ErrnoException) => resolve(failed(`the connection failed: ${error.code ?? "unknown error"}`)));
  outgoing.end(body);
  return await promise;
}

const failed = (detail: string): Attempt => ({ delivered: false, detail });
