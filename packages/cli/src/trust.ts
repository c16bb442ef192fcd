import { globalAgent } from "node:https";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import type { Environment } from "./config.ts";
import { configPath, credentialsPath, type Flags, isLoopback, profilesInOrder } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure, usage } from "./failure.ts";
import { readToml, type TomlContent } from "./toml-file.ts";

/** A certificate authority that this user has agreed to, and that no other may take the place of. */
export interface Pin {
  fingerprint: string;
  pem: string;
}

/** What the credentials file says about the way to an address. */
export interface Transport {
  pin: Pin | undefined;
  /** Plain http to another machine was agreed to. */
  insecure_http: boolean;
}

/** True for plain http to another machine: whoever is on the way reads the token. */
export function isExposed(base_url: string): boolean {
  const url = URL.parse(base_url);
  return url !== null && url.protocol === "http:" && !isLoopback(url);
}

const authorityFile = (environment: Environment, fingerprint: string): string =>
  path.join(configPath(environment, "authorities"), `${fingerprint.replace("sha256:", "")}.pem`);

/** The profile in use has the first word; any other with the same address counts too, as the server is the same. */
export async function transportTo(base_url: string, flags: Flags, environment: Environment): Promise<Transport> {
  const none: Transport = { pin: undefined, insecure_http: false };
  if (!base_url.startsWith("https:") && !isExposed(base_url)) return none;
  const origin = URL.parse(base_url)?.origin;
  // A broken file is complained about where it is needed; here it only pins nothing.
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
  const { fingerprintOf } = await import("@robofleet/protocol/authority");
  try {
    const pem = await readFile(file, "utf8");
    if (fingerprintOf(pem) === fingerprint) return { fingerprint, pem };
  } catch {
    // Said below: what is wrong with it changes nothing.
  }
  throw new Failure(EXIT.error, `the certificate authority ${fingerprint} that you trusted is not in ${file} any more`, {
    hints: ["`rf login` fetches it again."],
  });
}

/** Keeps the authority's certificate beside the credentials, which name its fingerprint. */
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
 * The authority to trust from now on at an address; undefined for those that the machine knows. On a terminal it is asked for.
 * Throws a Failure that shows the fingerprint when nobody has agreed to it.
 */
export async function chooseAuthority(
  base_url: string,
  known: Pin | undefined,
  options: TrustOptions,
  note: (text: string) => void,
): Promise<Pin | undefined> {
  const { parseFingerprint, isUntrusted, readPresented } = await import("@robofleet/protocol/authority");
  const wanted = options.fingerprint === undefined ? undefined : parseFingerprint(options.fingerprint);
  if (options.fingerprint !== undefined && wanted === undefined)
    throw usage("--fingerprint wants sha256: and 64 hex digits, as `robofleet fingerprint` prints them on the server");
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
    const { unreachable } = await import("@robofleet/sdk");
    throw unreachable(base_url, presented);
  }
  const { authority } = presented;
  if (authority !== undefined && authority.fingerprint === (wanted ?? known?.fingerprint)) return authority;
  if (wanted !== undefined)
    throw refused(
      `${base_url} does not have the certificate authority ${wanted}, but ${authority?.fingerprint ?? "one that it does not send"}`,
    );
  if (known !== undefined) throw changed(base_url, known.fingerprint, authority?.fingerprint);
  if (presented.trusted || !isUntrusted(presented.reason)) return undefined;
  if (authority === undefined)
    throw refused(
      `${base_url} has a certificate of an authority that this machine does not know`,
      "Give the authority's certificate: --ca-file FILE",
    );
  if (!(await agreed(base_url, authority, note))) {
    throw refused(
      `${base_url} has a certificate of an authority that this machine does not know`,
      `Its fingerprint is ${authority.fingerprint}`,
      "If `robofleet fingerprint` prints the same on the server:",
      `rf login --base-url ${base_url} --fingerprint ${authority.fingerprint}`,
    );
  }
  return authority;
}

const refused = (message: string, ...hints: string[]): Failure =>
  new Failure(EXIT.auth, message, { hints, document: { error: { code: "untrusted_authority", message } } });

const changed = (base_url: string, known: string, presented: string | undefined): Failure =>
  refused(
    `${base_url} presents another certificate authority than the one that you trusted`,
    `Trusted is ${known}, presented is ${presented ?? "one that it does not send"}`,
    "Somebody may be in between. If the server got a new one, compare what `robofleet fingerprint` prints there:",
    `rf login --base-url ${base_url} --fingerprint ${presented ?? "sha256:…"}`,
  );

async function readAuthority(file: string, wanted: string | undefined): Promise<Pin> {
  const pem = await readFile(file, "utf8");
  const { fingerprintOf } = await import("@robofleet/protocol/authority");
  let fingerprint: string;
  try {
    fingerprint = fingerprintOf(pem);
  } catch {
    throw usage(`${file} holds no certificate in PEM form`);
  }
  if (wanted !== undefined && wanted !== fingerprint) throw refused(`${file} has the fingerprint ${fingerprint}, not ${wanted}`);
  return { fingerprint, pem };
}

async function agreed(base_url: string, authority: Pin & { subject: string }, note: (text: string) => void): Promise<boolean> {
  if (!process.stdin.isTTY) return false;
  note(`${base_url} has a certificate of an authority that this machine does not know:`);
  note(`  ${authority.subject}`);
  note(`  ${authority.fingerprint}`);
  note("On the server `robofleet fingerprint` prints the same, if nobody is in between.");
  const { confirm } = await import("@clack/prompts");
  return (await confirm({ message: "Trust it?", initialValue: false, output: process.stderr })) === true;
}
