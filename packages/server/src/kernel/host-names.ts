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
/** Of a certificate, in a message. */
const NAMES_SHOWN_MAX = 20;

export interface HostNamesOptions {
  settings: Pick<Settings, "host_names" | "listen" | "behind_proxy" | "nodes">;
  /** PEM of the certificate that the server presents now. */
  certificate: () => string | undefined;
  clock: Pick<Clock, "monotonic">;
  /** Called at most once a minute with a host that a robot signed for and that is not this server's. */
  onForeign: (host: string) => void;
}

/** The host names of this server: a robot's signature that was made for another host was made for another server, which relays it. */
export class HostNames {
  /** False behind a proxy while no name is set: which names lead to the proxy is not known, so every host is accepted. */
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

  /** Whether `host` (a name or an address, with or without a port) is this server. Ports are not compared: they differ behind a port mapping. */
  has(host: string): boolean {
    if (!this.is_known) return true;
    const name = canonical(host);
    if (name === "") return false;
    if (this.#names.has(name)) return true;
    const certificate = this.#certificate();
    return (isIP(name) === 0 ? certificate?.checkHost(name) : certificate?.checkIP(name)) !== undefined;
  }

  /** Why a signature for `host` is refused, for people; undefined when it is accepted. */
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
      "if that host leads here, add it with --host-name (ROAMFLEET_HOST_NAMES)"
    );
  }

  /** The names for people: those of the settings and of the certificate. */
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

/** Whether the server can tell its own names from others'. */
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

/** A name or an address in the one form that URLs give it, without port, brackets and the dot at the end; "" for what is no host. */
function canonical(host: string): string {
  const text = isIP(host) === 6 ? `[${host}]` : host;
  return (URL.parse(`http://${text}`)?.hostname ?? "").replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
}
