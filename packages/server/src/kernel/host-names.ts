import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import type { Clock } from "@roamfleet/clock";
import type { Settings } from "../config.ts";
import { Networks } from "./networks.ts";

const LOOPBACK = new Networks(["127.0.0.0/8", "::1"]);
const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "::1"];
const WILDCARDS = ["0.0.0.0", "::"];
const NOTE_EVERY_MS = 60_000;
const HOST_CHARACTERS_MAX = 100;
/** Maximum host names in a message. */
const NAMES_SHOWN_MAX = 20;

export interface HostNamesOptions {
  settings: Pick<Settings, "host_names" | "listen" | "behind_proxy" | "nodes">;
  /** PEM of the certificate that the server presents now. */
  certificate: () => string | undefined;
  clock: Pick<Clock, "monotonic">;
  /** Called at most once a minute with a host that a robot signed for and that is not a name of this server. */
  onForeign: (host: string) => void;
}

/** The host names of this server. A robot's signature for another host was made for another server, which may be relaying the request. */
export class HostNames {
  /** False behind a proxy if no name is configured: the proxy's names are unknown, so every host is accepted. */
  readonly is_known: boolean;
  readonly #options: HostNamesOptions;
  readonly #names: ReadonlySet<string>;
  #parsed: { pem: string; certificate: X509Certificate } | undefined;
  #noted_at = -Infinity;

  constructor(options: HostNamesOptions) {
    this.#options = options;
    this.is_known = areHostsKnown(options.settings);
    this.#names = new Set(namesOf(options.settings).map(canonical));
  }

  /**
   * Returns whether `host` (a name or address, with or without a port) is this server. Ports are ignored, because port mappings change
   * them.
   */
  has(host: string): boolean {
    if (!this.is_known) return true;
    const name = canonical(host);
    if (name === "") return false;
    if (this.#names.has(name)) return true;
    const certificate = this.#certificate();
    return (isIP(name) === 0 ? certificate?.checkHost(name) : certificate?.checkIP(name)) !== undefined;
  }

  /** Returns the error message for a signature for `host`; undefined if it is accepted. */
  refusal(host: string): string | undefined {
    if (this.has(host)) return undefined;
    const shown = host.slice(0, HOST_CHARACTERS_MAX);
    const now = this.#options.clock.monotonic();
    if (now - this.#noted_at >= NOTE_EVERY_MS) {
      this.#noted_at = now;
      this.#options.onForeign(shown);
    }
    return (
      `the signature is for the host ${shown}, and this server answers to ${this.list().join(", ")}: ` +
      "if that host is this server, add it with --host-name (ROAMFLEET_HOST_NAMES)"
    );
  }

  /** Returns the names of the settings and of the certificate, for messages. */
  list(): string[] {
    const named = (this.#certificate()?.subjectAltName ?? "").split(", ").map((one) => one.replace(/^[^:]*:/, "").toLowerCase());
    return [...new Set([...this.#names, ...named.filter((name) => name !== "")])].slice(0, NAMES_SHOWN_MAX);
  }

  #certificate(): X509Certificate | undefined {
    const pem = this.#options.certificate();
    if (pem === undefined) return undefined;
    if (this.#parsed?.pem !== pem) this.#parsed = { pem, certificate: new X509Certificate(pem) };
    return this.#parsed.certificate;
  }
}

/** Returns whether the server can distinguish its own host names from others. */
export const areHostsKnown = ({ host_names = [], behind_proxy }: Pick<Settings, "host_names" | "behind_proxy">): boolean =>
  host_names.length > 0 || behind_proxy.length === 0;

function namesOf({ host_names = [], listen, nodes }: HostNamesOptions["settings"]): string[] {
  const is_loopback = listen.host === "localhost" || LOOPBACK.has(listen.host);
  return [
    ...host_names,
    ...(WILDCARDS.includes(listen.host) ? [] : [listen.host]),
    ...(is_loopback ? LOOPBACK_NAMES : []),
    ...(nodes?.address === undefined ? [] : [nodes.address.host]),
  ];
}

/** Returns a name or address as URLs contain it, without port, brackets and trailing dot; "" if it is not a host. */
function canonical(host: string): string {
  const text = isIP(host) === 6 ? `[${host}]` : host;
  return (URL.parse(`http://${text}`)?.hostname ?? "").replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
}
