import { globalAgent } from "node:https";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import type { Environment } from "./config.ts";
import { configPath, credentialsPath, type Flags, isLoopback, profilesInOrder } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure, usage } from "./failure.ts";
import { readToml, type TomlContent } from "./toml-file.ts";

/** A certificate authority that this user has accepted for a server. Connections to that server trust no other authority. */
export interface Pin {
  fingerprint: string;
  pem: string;
}

/** Connection settings for an address in the credentials file. */
export interface Transport {
  pin: Pin | undefined;
  /** Whether the user allowed plain http to another machine. */
  insecure_http: boolean;
}

/** Returns true for plain http to another machine, where tokens can be read in transit. */
export function isExposed(base_url: string): boolean {
  const url = URL.parse(base_url);
  return url !== null && url.protocol === "http:" && !isLoopback(url);
}

const authorityFile = (environment: Environment, fingerprint: string): string =>
  path.join(configPath(environment, "authorities"), `${fingerprint.replace("sha256:", "")}.pem`);

/**
 * Returns the settings for an address from all profiles with the same origin, because their server is the same. The active profile's pin
 * takes precedence.
 */
export async function transportTo(base_url: string, flags: Flags, environment: Environment): Promise<Transport> {
  const none: Transport = { pin: undefined, insecure_http: false };
  if (!base_url.startsWith("https:") && !isExposed(base_url)) return none;
  const origin = URL.parse(base_url)?.origin;
  // A broken file counts as empty here: it is reported where the credentials are needed.
  const content: TomlContent = await readToml(credentialsPath(environment)).catch(() => ({}));
  const profiles = profilesInOrder(flags, environment, content).filter((one) => URL.parse(one.base_url ?? "")?.origin === origin);
  const fingerprint = profiles.find((one) => one.ca_fingerprint !== undefined)?.ca_fingerprint;
  return {
    pin: fingerprint === undefined ? undefined : await readPin(environment, fingerprint),
    insecure_http: profiles.some((one) => one.insecure_http === "allowed"),
  };
}

async function readPin(environment: Environment, fingerprint: string): Promise<Pin> {
  const file = authorityFile(environment, fingerprint);
  const { fingerprintOf } = await import("@roamfleet/protocol/authority");
  try {
    const pem = await readFile(file, "utf8");
    if (fingerprintOf(pem) === fingerprint) return { fingerprint, pem };
  } catch {
    // The error below also covers a file that cannot be read.
  }
  throw new Failure(EXIT.error, `the certificate authority ${fingerprint} that you trusted is missing in ${file}`, {
    hints: ["`rf login` fetches the certificate again."],
  });
}

/** Stores the authority's certificate beside the credentials, which contain its fingerprint. */
export async function savePin(environment: Environment, { fingerprint, pem }: Pin): Promise<void> {
  const file = authorityFile(environment, fingerprint);
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(file, pem, { mode: 0o600 });
}

export interface TrustOptions {
  fingerprint?: string;
  caFile?: string;
}

/**
 * Returns the authority to pin for an address; undefined if none is needed, for example because the system trusts the server's authority.
 * Prompts on a terminal. Throws a Failure with the fingerprint if the user has not accepted the authority.
 */
export async function chooseAuthority(
  base_url: string,
  known: Pin | undefined,
  options: TrustOptions,
  note: (text: string) => void,
): Promise<Pin | undefined> {
  const { parseFingerprint, isUntrusted, readPresented } = await import("@roamfleet/protocol/authority");
  const wanted = options.fingerprint === undefined ? undefined : parseFingerprint(options.fingerprint);
  if (options.fingerprint !== undefined && wanted === undefined)
    throw usage("--fingerprint takes sha256: and 64 hex digits, as printed by `roamfleet fingerprint` on the server");
  if (!base_url.startsWith("https:")) {
    if ((options.fingerprint ?? options.caFile) !== undefined) throw usage(`${base_url} is plain http: there is no certificate to trust`);
    return undefined;
  }
  if (options.caFile !== undefined) return readAuthority(options.caFile, wanted);
  const presented = await readPresented(base_url, { environment: globalAgent.options.proxyEnv ?? {} }).catch(
    (error: unknown) => error as Error,
  );
  if (presented instanceof Error) {
    if (wanted === undefined) return known;
    const { unreachable } = await import("@roamfleet/sdk");
    throw unreachable(base_url, presented);
  }
  const { authority } = presented;
  if (authority !== undefined && authority.fingerprint === (wanted ?? known?.fingerprint)) return authority;
  if (wanted !== undefined)
    throw refused(`${base_url} has the certificate authority ${authority?.fingerprint ?? "(not sent)"}, not ${wanted}`);
  if (known !== undefined) throw changed(base_url, known.fingerprint, authority?.fingerprint);
  if (presented.trusted || !isUntrusted(presented.reason)) return undefined;
  if (authority === undefined)
    throw refused(`${base_url} has a certificate from an unknown authority`, "Pass the authority's certificate: --ca-file FILE");
  if (!(await agreed(base_url, authority, note))) {
    throw refused(
      `${base_url} has a certificate from an unknown authority`,
      `The authority's fingerprint is ${authority.fingerprint}`,
      "If `roamfleet fingerprint` prints the same value on the server, run:",
      `rf login --base-url ${base_url} --fingerprint ${authority.fingerprint}`,
    );
  }
  return authority;
}

const refused = (message: string, ...hints: string[]): Failure =>
  new Failure(EXIT.auth, message, { hints, document: { error: { code: "untrusted_authority", message } } });

const changed = (base_url: string, known: string, presented: string | undefined): Failure =>
  refused(
    `${base_url} presents a different certificate authority than the one you trusted`,
    `Trusted: ${known}, presented: ${presented ?? "(not sent)"}`,
    "The connection may be intercepted. If the server has a new certificate authority, and `roamfleet fingerprint` prints the presented fingerprint on the server, run:",
    `rf login --base-url ${base_url} --fingerprint ${presented ?? "sha256:…"}`,
  );

async function readAuthority(file: string, wanted: string | undefined): Promise<Pin> {
  const pem = await readFile(file, "utf8");
  const { fingerprintOf } = await import("@roamfleet/protocol/authority");
  let fingerprint: string;
  try {
    fingerprint = fingerprintOf(pem);
  } catch {
    throw usage(`${file} does not contain a certificate in PEM format`);
  }
  if (wanted !== undefined && wanted !== fingerprint) throw refused(`${file} has the fingerprint ${fingerprint}, not ${wanted}`);
  return { fingerprint, pem };
}

async function agreed(base_url: string, authority: Pin & { subject: string }, note: (text: string) => void): Promise<boolean> {
  if (!process.stdin.isTTY) return false;
  note(`${base_url} has a certificate from an unknown authority:`);
  note(`  ${authority.subject}`);
  note(`  ${authority.fingerprint}`);
  note("If the connection is not intercepted, `roamfleet fingerprint` prints the same value on the server.");
  const { confirm } = await import("@clack/prompts");
  return (await confirm({ message: "Trust this certificate authority?", initialValue: false, output: process.stderr })) === true;
}
