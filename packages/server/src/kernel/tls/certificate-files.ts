import { createPrivateKey, X509Certificate } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { createSecureContext } from "node:tls";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { type KeyPair, samePair, type Tls, TLS_OPTIONS } from "./tls.ts";

/** Polling interval. On file systems without change events (NFS, some container mounts), a change is noticed within this time. */
const POLL_MS = 10_000;
/** Debounce of change events: certificate and key are written one after the other, and both must be complete. */
const SETTLE_MS = 200;

interface Context {
  clock: Clock;
  log: Logger;
}

/**
 * Loads a certificate and its key from files, and reloads them when another program renews them. Throws if they do not match at the start.
 */
export async function certificateFiles(files: { cert_file: string; key_file: string }, context: Context): Promise<Tls> {
  const followed = new CertificateFiles(files, await readPair(files), context);
  return followed;
}

/** Reads both files. Throws an Error with the file's name if they are not a valid pair. */
export async function readPair({ cert_file, key_file }: { cert_file: string; key_file: string }): Promise<KeyPair> {
  const [cert, key] = await Promise.all([readFile(cert_file, "utf8"), readFile(key_file, "utf8")]);
  const certificate = parsed(cert_file, "certificate in PEM form", () => new X509Certificate(cert));
  const private_key = parsed(key_file, "private key in PEM form without a passphrase", () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(private_key)) throw new Error(`${key_file} is not the private key of ${cert_file}`);
  parsed(cert_file, "certificate chain that this server can use", () => createSecureContext({ ...TLS_OPTIONS, cert, key }));
  return { cert, key };
}

function parsed<T>(file: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    // Replaces OpenSSL's message, which contains neither the file nor the expected content. The new message never contains the key.
    throw new Error(`${file} contains no ${what}`, { cause: error });
  }
}

class CertificateFiles implements Tls {
  pair: KeyPair;
  readonly authority = undefined;
  readonly #files: { cert_file: string; key_file: string };
  readonly #context: Context;
  readonly #timer: Timer;
  readonly #watchers: FSWatcher[];
  #soon: Timer | undefined;
  #servers: Parameters<Tls["follow"]>[0][] = [];
  /** Why the current files are not used. Each reason is logged once. */
  #complaint: string | undefined;

  constructor(files: { cert_file: string; key_file: string }, pair: KeyPair, context: Context) {
    this.#files = files;
    this.pair = pair;
    this.#context = context;
    this.#timer = context.clock.every(POLL_MS, () => this.#look());
    // Watches the directory, not the file: a renewal replaces the file, and Kubernetes replaces a symlink to the file's directory.
    const directories = new Set([path.dirname(path.resolve(files.cert_file)), path.dirname(path.resolve(files.key_file))]);
    this.#watchers = [...directories].flatMap((directory) => this.#watch(directory));
  }

  follow(server: Parameters<Tls["follow"]>[0]): void {
    this.#servers.push(server);
  }

  stop(): void {
    this.#timer.cancel();
    this.#soon?.cancel();
    for (const watcher of this.#watchers) watcher.close();
    this.#servers = [];
  }

  #watch(directory: string): FSWatcher[] {
    try {
      const watcher = watch(directory, { persistent: false }, () => {
        this.#soon?.cancel();
        this.#soon = this.#context.clock.setTimer(SETTLE_MS, () => this.#look());
      });
      // Without events, the timer still polls for changes.
      watcher.on("error", () => watcher.close());
      return [watcher];
    } catch {
      return [];
    }
  }

  async #look(): Promise<void> {
    const { log } = this.#context;
    try {
      const pair = await readPair(this.#files);
      this.#complaint = undefined;
      if (samePair(pair, this.pair)) return;
      this.pair = pair;
      for (const server of this.#servers) server.setSecureContext({ ...TLS_OPTIONS, ...pair });
      const { validTo, subject } = new X509Certificate(pair.cert);
      log.info({ cert_file: this.#files.cert_file, subject, valid_to: validTo }, "reloaded the certificate");
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason === this.#complaint) return;
      this.#complaint = reason;
      log.error({ reason, cert_file: this.#files.cert_file }, "the new certificate cannot be used, keeping the old one");
    }
  }
}
