import { X509Certificate } from "node:crypto";
import { stat } from "node:fs/promises";
import path from "node:path";
import { rootCertificates } from "node:tls";
import { authorityFile } from "../../kernel/tls/certificate-authority.ts";
import { readPair } from "../../kernel/tls/certificate-files.ts";
import { type Check, type DoctorContext, ok, problem, type Seen, skipped, warning } from "../finding.ts";
import { errorCode, readIfPresent } from "../../kernel/files.ts";

const DAY_MS = 86_400_000;
const ENDS_SOON_DAYS = 14;
const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";

export const tlsCheck: Check = {
  name: "TLS",
  async check({ settings, wrong_parts, clock }) {
    if (wrong_parts.has("tls")) return [skipped("not checked: first fix the problem in settings")];
    const { tls, behind_proxy } = settings;
    if (tls === undefined)
      return [ok(behind_proxy.length > 0 ? "none: the proxy provides TLS" : "none: the server only listens on this machine")];
    if (tls.mode === "auto") return await lookAtOwn(settings, clock.now());
    return await lookAtFiles(tls, clock.now());
  },
};

async function lookAtFiles(files: { cert_file: string; key_file: string }, now: Date): Promise<Seen[]> {
  try {
    const { cert } = await readPair(files);
    return [...evaluateChain(parseChain(cert), now), ...(await evaluateKeyFile(files.key_file))];
  } catch (error) {
    const code = errorCode(error);
    const file = (error as NodeJS.ErrnoException).path ?? files.cert_file;
    if (code === "ENOENT") return [problem(`${file} does not exist`, "correct --tls-cert and --tls-key")];
    if (code === "EACCES") return [problem(`${file} cannot be read by this user`, "allow the server's user to read it")];
    return [
      problem(
        error instanceof Error ? error.message : String(error),
        "both must be in PEM format: the chain starting with the server's certificate, and the key of that certificate without a passphrase",
      ),
    ];
  }
}

async function evaluateKeyFile(file: string): Promise<Seen[]> {
  const { mode } = await stat(file);
  if ((mode & 0o004) === 0) return [];
  return [warning(`${file} can be read by every user of this machine`, `chmod o-rwx ${file}`)];
}

/** Checks the server's own CA. */
async function lookAtOwn({ data_directory, tls }: DoctorContext["settings"], now: Date): Promise<Seen[]> {
  const file = authorityFile(data_directory);
  const further = tls?.mode === "auto" && tls.names.length > 0 ? `; additional names: ${tls.names.join(", ")}` : "";
  const pem = await readIfPresent(file);
  if (pem === undefined) return [ok(`a certificate authority is created at the first start${further}`)];
  const key_file = path.join(path.dirname(file), "ca-key.pem");
  try {
    await readPair({ cert_file: file, key_file });
  } catch (error) {
    return [
      problem(
        `the server's own certificate authority cannot be used: ${(error as Error).message}`,
        `restore ${path.dirname(file)} from a backup; removing that directory creates a new authority, and every robot then needs the new fingerprint`,
      ),
    ];
  }
  const { validToDate, validFromDate } = new X509Certificate(pem);
  const days = daysUntil(validToDate, now);
  const clock = `the clock of this machine shows ${now.toISOString().slice(0, 10)}`;
  const renew =
    "set the clock if it is wrong; otherwise remove the file and start again, then distribute the new fingerprint to robots and users";
  if (days <= 0) return [problem(`${file} expired on ${validToDate.toISOString().slice(0, 10)}, and ${clock}`, renew)];
  if (validFromDate > now) return [problem(`${file} is valid from ${validFromDate.toISOString().slice(0, 10)}, and ${clock}`, renew)];
  return [ok(`the server's own certificate authority, valid for ${days} days${further}`), ...(await evaluateKeyFile(key_file))];
}

/** Returns every certificate of a PEM file, in order. */
export const parseChain = (pem: string): X509Certificate[] =>
  [...pem.matchAll(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g)].map(([one]) => new X509Certificate(one));

const daysUntil = (then: Date, now: Date): number => Math.floor((then.getTime() - now.getTime()) / DAY_MS);
const nameOf = (certificate: X509Certificate): string =>
  /CN=([^\n]+)/.exec(certificate.subject)?.[1] ?? certificate.subject.split("\n").join(", ");

/** Checks dates, names, purpose, and whether each certificate is signed by the next one. */
export function evaluateChain(chain: readonly X509Certificate[], now: Date): Seen[] {
  const [leaf, ...rest] = chain;
  if (leaf === undefined) return [problem("the file contains no certificate", "use the chain in PEM format")];
  const findings = chain.flatMap((certificate, at) =>
    evaluateDates(certificate, at === 0 ? "the certificate" : `${nameOf(certificate)} in the chain`, now),
  );
  if (leaf.subjectAltName === undefined)
    findings.push(
      problem(
        "the certificate names no host in subjectAltName",
        "request one with the names and addresses of the server: clients ignore the common name",
      ),
    );
  if (leaf.keyUsage !== undefined && leaf.keyUsage.length > 0 && !leaf.keyUsage.includes(SERVER_AUTH))
    findings.push(problem("the certificate is not for servers", "request one with the extended key usage serverAuth"));
  for (const [at, certificate] of rest.entries()) {
    const signed = chain[at];
    if (signed !== undefined && !isSignedBy(signed, certificate))
      findings.push(
        problem(
          `${nameOf(signed)} is not signed by ${nameOf(certificate)}, which follows it`,
          "put the chain in order: the server's certificate, then the issuer of each certificate",
        ),
      );
  }
  const last = chain.at(-1) ?? leaf;
  if (!isSignedBy(last, last) && !isKnownRoot(last))
    findings.push(
      warning(
        `the chain ends with ${nameOf(last)}, whose issuer is not a public root`,
        "append the intermediate certificates (fullchain.pem), unless clients use the issuer as --ca-file",
      ),
    );
  if (findings.length > 0) return findings;
  return [ok(`${leaf.subjectAltName?.replaceAll(/DNS:|IP Address:/g, "") ?? ""}, valid for ${daysUntil(leaf.validToDate, now)} days`)];
}

function evaluateDates(certificate: X509Certificate, what: string, now: Date): Seen[] {
  const days = daysUntil(certificate.validToDate, now);
  const ends = certificate.validToDate.toISOString().slice(0, 10);
  if (certificate.validFromDate > now)
    return [
      problem(`${what} is only valid from ${certificate.validFromDate.toISOString().slice(0, 10)}`, "check the clock of this machine"),
    ];
  if (certificate.validToDate <= now)
    return [problem(`${what} expired on ${ends}`, "renew it; the server loads the new files without a restart")];
  if (days < ENDS_SOON_DAYS)
    return [warning(`${what} expires on ${ends}, in ${days} days`, "renew it; the server loads the new files without a restart")];
  return [];
}

const isSignedBy = (signed: X509Certificate, issuer: X509Certificate): boolean =>
  signed.checkIssued(issuer) && signed.verify(issuer.publicKey);

/** Returns whether the certificate is signed by one of the root certificates that Node includes. */
const isKnownRoot = (certificate: X509Certificate): boolean =>
  rootCertificates.some((pem) => isSignedBy(certificate, new X509Certificate(pem)));
