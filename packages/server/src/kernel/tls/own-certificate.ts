import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { hostname, networkInterfaces } from "node:os";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { Settings } from "../../config.ts";
import { certificateFiles } from "./certificate-files.ts";
import { type KeyPair, type Tls, TLS_OPTIONS } from "./tls.ts";
import { BACKDATED_MS, openAuthority, type OwnAuthority } from "./certificate-authority.ts";

/** Interval of the checks for new names and for expiry. A new address of this machine is in the certificate within this time. */
const LOOK_MS = 10_000;
/** Maximum names per certificate. If there are more, names that the machine no longer has are removed. */
const NAMES_MAX = 64;
/** The certificate is renewed when this much of its lifetime is left. */
const RENEW_BEFORE_MS = 30 * 86_400_000;
const DNS_NAME = /^(?=.{1,253}$)(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*$/;

export interface OwnCertificateOptions {
  data_directory: string;
  listen_host: string;
  /** Additional names and addresses of the server. */
  names: readonly string[];
  clock: Clock;
  log: Logger;
  /** Replaces the machine's names in tests. */
  machine_names?: () => string[];
  /** Interval of the checks for new names and for expiry. Tests that simulate months set a longer one. */
  look_every_ms?: number;
}

/** Opens the certificate that the settings select; undefined without TLS. Throws if there is no usable certificate. */
export async function openTls(
  { tls, listen, data_directory }: Pick<Settings, "tls" | "listen" | "data_directory">,
  context: { clock: Clock; log: Logger },
): Promise<Tls | undefined> {
  if (tls === undefined) return undefined;
  if (tls.mode === "files") return certificateFiles(tls, context);
  return ownCertificate({ ...context, data_directory, listen_host: listen.host, names: tls.names });
}

/** Issues a certificate by the server's own CA, and renews it before it expires and when the machine's names change. */
export async function ownCertificate(options: OwnCertificateOptions): Promise<Tls> {
  const authority = await openAuthority(options.data_directory, options.clock.now());
  const made_for = authority.timeOf(options.clock.now());
  if (made_for.getTime() - options.clock.now().getTime() > BACKDATED_MS)
    options.log.error(
      { valid_from: made_for.toISOString(), now: options.clock.now().toISOString(), file: authority.file },
      "the certificate authority is not valid yet by this machine's clock, which is probably wrong",
    );
  const names = namesOf(options);
  const pair = await authority.issue(names, options.clock.now());
  return new OwnCertificate(options, authority, pair, names);
}

/**
 * Returns host name and addresses of this machine. Link-local addresses are left out: they need a zone, which certificates cannot contain.
 */
export function machineNames(): string[] {
  const addresses = Object.values(networkInterfaces())
    .flat()
    .flatMap((one) => (one === undefined || /^fe80:/i.test(one.address) ? [] : [one.address]));
  return [hostname(), ...addresses];
}

function namesOf({ listen_host, names, machine_names = machineNames }: OwnCertificateOptions): string[] {
  const wildcard = listen_host === "0.0.0.0" || listen_host === "::";
  const all = ["localhost", "127.0.0.1", "::1", ...(wildcard ? [] : [listen_host]), ...names, ...machine_names()];
  return [...new Set(all.map((name) => name.toLowerCase()))].filter((name) => isIP(name) !== 0 || DNS_NAME.test(name)).toSorted();
}

/**
 * Adds the names of the current certificate. An interface that is down for a moment loses its address: robots that reconnect through it
 * would otherwise get a certificate without that address until the next check.
 */
function withEarlier(present: string[], earlier: readonly string[]): string[] {
  const all = [...new Set([...present, ...earlier])].toSorted();
  return all.length > NAMES_MAX ? present : all;
}

class OwnCertificate implements Tls {
  pair: KeyPair;
  readonly authority: OwnAuthority;
  readonly #options: OwnCertificateOptions;
  readonly #timer: Timer;
  #names: string[];
  #valid: Validity;
  #servers: Parameters<Tls["follow"]>[0][] = [];

  constructor(options: OwnCertificateOptions, authority: OwnAuthority, pair: KeyPair, names: string[]) {
    this.#options = options;
    this.authority = authority;
    this.pair = pair;
    this.#names = names;
    this.#valid = validityOf(pair);
    this.#timer = options.clock.every(options.look_every_ms ?? LOOK_MS, () => this.#look());
  }

  follow(server: Parameters<Tls["follow"]>[0]): void {
    this.#servers.push(server);
  }

  stop(): void {
    this.#timer.cancel();
    this.#servers = [];
  }

  async #look(): Promise<void> {
    const { clock, log } = this.#options;
    try {
      // Throws if file descriptors have run out: the machine's addresses cannot be read then.
      const names = withEarlier(namesOf(this.#options), this.#names);
      const renamed = names.join() !== this.#names.join();
      if (!renamed && !this.#isDue(clock.now())) return;
      const pair = await this.authority.issue(names, clock.now());
      for (const server of this.#servers) server.setSecureContext({ ...TLS_OPTIONS, ...pair });
      this.pair = pair;
      this.#names = names;
      this.#valid = validityOf(pair);
      log.info({ names, valid_to: this.#valid.to.toISOString() }, "issued a new certificate");
    } catch (error) {
      log.error({ err: error }, "could not issue a new certificate");
    }
  }

  /**
   * Returns whether to renew the certificate: it expires soon, or the clock was set back to before its start. A certificate that ends with
   * its CA is not renewed, because it cannot be extended.
   */
  #isDue(now: Date): boolean {
    const { ends_at } = this.authority;
    const at = this.authority.timeOf(now);
    if (at >= ends_at) return false;
    return this.#valid.from > at || (this.#valid.to < ends_at && this.#valid.to.getTime() - at.getTime() <= RENEW_BEFORE_MS);
  }
}

interface Validity {
  from: Date;
  to: Date;
}

function validityOf({ cert }: KeyPair): Validity {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  return { from: validFromDate, to: validToDate };
}
