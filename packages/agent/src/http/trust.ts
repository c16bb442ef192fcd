import { X509Certificate } from "node:crypto";
import { readFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import {
  fingerprintOf,
  isUntrusted,
  type Presented,
  readPresented,
  requireFingerprint,
  UntrustedAuthority,
} from "@roamfleet/protocol/authority";
import type { Logger } from "pino";
import type { AgentConfig } from "../config.ts";
import { errorText, isMissing, makeDirectory, writeAtomically, readIfExists } from "../disk/write-atomically.ts";
import { enrollmentFile } from "../identity/identity.ts";
import { backoffMs } from "../link/backoff.ts";

export interface TrustOptions {
  config: Pick<AgentConfig, "server" | "state_directory" | "ca_fingerprint" | "ca_file" | "trust_on_first_use"> &
    Partial<Pick<AgentConfig, "workload_environment">>;
  clock: Clock;
  log: Logger;
  /** Aborts the retries while the server is unreachable. */
  signal: AbortSignal;
}

const pinFile = (state_directory: string): string => join(state_directory, "identity", "server-ca.pem");

/**
 * Returns the certificate authority to trust for the server. Pins it in the state directory, and from then on accepts no other. Returns
 * `{}` if the machine's trusted authorities apply, which is the default. Throws UntrustedAuthority, whose message states what to do.
 */
export async function establishTrust(options: TrustOptions): Promise<{ ca?: string }> {
  const { config, log } = options;
  const { state_directory, ca_fingerprint, ca_file } = config;
  if (!config.server.startsWith("https:")) return {};
  const pinned = readIfExists(pinFile(state_directory))?.toString("utf8");
  if (ca_file !== undefined) return pin(options, pinned, readAuthority(ca_file, ca_fingerprint));
  if (pinned !== undefined && (ca_fingerprint === undefined || fingerprintOf(pinned) === ca_fingerprint)) return { ca: pinned };
  // A robot that enrolled without a pin trusts the machine's authorities. It can start without reading the server's certificate.
  if (ca_fingerprint === undefined && existsSync(enrollmentFile(state_directory))) return {};
  const presented = await look(options);
  if (ca_fingerprint !== undefined) return pin(options, pinned, requireFingerprint(presented, ca_fingerprint));
  if (presented.trusted) return {};
  const { authority } = presented;
  if (authority !== undefined && config.trust_on_first_use) {
    log.warn(
      { server: config.server, ca_fingerprint: authority.fingerprint },
      "trusting the certificate authority that the server presents",
    );
    return pin(options, pinned, authority.pem);
  }
  // The robot's clock is behind, so the certificate could not be verified yet. Each connection verifies it against the machine's
  // authorities, ignoring its start date.
  if (presented.reason === "CERT_NOT_YET_VALID" && authority === undefined) return {};
  throw new UntrustedAuthority(refusal(config.server, presented), authority?.fingerprint);
}

function refusal(server: string, { authority, reason }: Presented): string {
  if (!isUntrusted(reason)) return `${server} cannot be trusted: its certificate is not valid (${reason})`;
  if (authority === undefined)
    return `${server} has a certificate from an authority that this machine does not trust: pass the authority's certificate with --ca-file FILE`;
  return (
    `${server} has a certificate from an authority that this machine does not trust.\n` +
    `Its fingerprint is ${authority.fingerprint}\n` +
    "If `roamfleet fingerprint` prints the same value on the server, add:\n" +
    `  --ca-fingerprint ${authority.fingerprint}`
  );
}

/** Reads a certificate from a file. Throws if a fingerprint is given and the certificate does not match it. */
function readAuthority(file: string, fingerprint: string | undefined): string {
  let pem: string;
  try {
    pem = new X509Certificate(readFileSync(file)).toString();
  } catch (error) {
    throw new UntrustedAuthority(`--ca-file ${file}: ${isMissing(error) ? "there is no such file" : "the file is not a PEM certificate"}`);
  }
  if (fingerprint !== undefined && fingerprintOf(pem) !== fingerprint)
    throw new UntrustedAuthority(`${file} has the fingerprint ${fingerprintOf(pem)}, not ${fingerprint}`);
  return pem;
}

function pin({ config, log }: TrustOptions, pinned: string | undefined, ca: string): { ca: string } {
  if (pinned !== undefined && fingerprintOf(pinned) === fingerprintOf(ca)) return { ca };
  const { state_directory, server } = config;
  makeDirectory(join(state_directory, "identity"));
  writeAtomically(pinFile(state_directory), ca);
  log.info({ server, ca_fingerprint: fingerprintOf(ca) }, "from now on only this certificate authority is trusted");
  return { ca };
}

/** Reads the certificate that the server presents. Retries with backoff while the server is unreachable, like enrollment. */
async function look({ config, clock, log, signal }: TrustOptions): Promise<Presented> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await readPresented(config.server, { signal, environment: config.workload_environment ?? {} });
    } catch (error) {
      signal.throwIfAborted();
      const wait_ms = backoffMs(clock, attempt);
      log.warn({ server: config.server, reason: errorText(error), wait_ms }, "could not reach the server, trying again");
      await clock.sleep(wait_ms, signal);
      signal.throwIfAborted();
    }
  }
}

/** Returns what to do if a connection failed because its certificate was not accepted; undefined for any other error. */
export function certificateComplaint(error: Error, ca: string | undefined): string | undefined {
  const code = "code" in error ? String(error.code) : undefined;
  if (!isUntrusted(code)) return undefined;
  if (ca === undefined)
    return `this machine does not trust the server's certificate authority (${code}): start the agent with --ca-fingerprint`;
  return (
    `the server presents another certificate authority than the pinned ${fingerprintOf(ca)}: ` +
    "either the connection is intercepted, or the server has a new authority; in the second case start the agent once with the new --ca-fingerprint"
  );
}
