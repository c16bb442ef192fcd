import { type Clock, systemClock } from "@roamfleet/clock";
import type { Client } from "@roamfleet/sdk";
import type { Environment } from "./config.ts";
import { type Access, type Flags, isToken, resolveAccess } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure, toFailure, usage } from "./failure.ts";
import type { Output } from "./output.ts";
import type { Transport } from "./trust.ts";

/**
 * The user is notified of a retry only if the delay is at least this long. A note about a shorter delay would be outdated before the user
 * has read it.
 */
const RETRY_NOTE_MS_MIN = 2_000;

/** The environment, output and clients of a running command. */
export class Context {
  readonly out: Output;
  readonly flags: Flags;
  readonly environment: Environment;
  readonly clock: Clock = systemClock;
  #access: Promise<Access> | undefined;
  #base_url_source: string | undefined;
  #pinned: string | undefined;

  constructor(out: Output, flags: Flags, environment: Environment) {
    this.out = out;
    this.flags = flags;
    this.environment = environment;
  }

  /** True if stdout must contain exactly one document. */
  get structured(): boolean {
    return this.out.structured;
  }

  readonly now = (): Date => this.clock.now();

  async access(): Promise<Access> {
    this.#access ??= resolveAccess(this.flags, this.environment);
    const access = await this.#access;
    this.#base_url_source = access.base_url_source;
    return access;
  }

  /** Returns a client with the user's token. */
  async client(): Promise<Client> {
    const access = await this.access();
    if (access.token === undefined) {
      const profile = this.flags.profile ?? this.environment.profile;
      const login = profile === undefined ? "rf login" : `rf login --profile ${profile}`;
      if (access.token_origin !== undefined) {
        throw new Failure(EXIT.auth, `the saved token is for ${access.token_origin} and is not sent to ${access.base_url}`, {
          hints: [
            `The address is from ${access.base_url_source}.`,
            `Run \`rf login --profile NAME --base-url ${access.base_url}\`, or set ROAMFLEET_TOKEN.`,
          ],
        });
      }
      throw new Failure(EXIT.auth, "you are not logged in", { hints: [`Run \`${login}\`, or set ROAMFLEET_TOKEN.`] });
    }
    return this.connect({ base_url: access.base_url, token: access.token, org_id: access.org_id });
  }

  async connect(options: {
    base_url: string;
    token?: string | undefined;
    org_id?: string | undefined;
    admin_token?: string | undefined;
    retries?: number;
    /** Connection settings, if already known. Default: the settings in the credentials file. */
    transport?: Transport;
  }): Promise<Client> {
    const { transport: given, ...rest } = options;
    const { pin, insecure_http } = given ?? (await this.#transport(options.base_url));
    const secret = options.token ?? options.admin_token;
    if (secret !== undefined && !isToken(secret)) {
      const [name, hint] =
        options.token === undefined
          ? ["admin token", "The token is from --admin-token or ROAMFLEET_ADMIN_TOKEN."]
          : ["token", "The token is from ROAMFLEET_TOKEN or the credentials file. `rf login` saves another token."];
      throw usage(`the ${name} contains spaces or characters that are not valid in a token`, hint);
    }
    if (secret !== undefined && !insecure_http && !this.environment.allow_insecure_http) await refuseExposed(options.base_url);
    this.#pinned = pin?.fingerprint;
    const { createClient } = await import("@roamfleet/sdk");
    try {
      return createClient({ ...rest, ca: pin?.pem, clock: this.clock, on_retry: ({ wait_ms, error }) => this.#noteRetry(wait_ms, error) });
    } catch (error) {
      if (error instanceof TypeError) throw usage(error.message, `The address is from ${this.#base_url_source ?? "--base-url"}.`);
      throw error;
    }
  }

  /** Fingerprint of the pinned certificate authority; undefined if rf trusts the system's authorities. */
  get pinned(): string | undefined {
    return this.#pinned;
  }

  async #transport(base_url: string): Promise<Transport> {
    // Most calls go to the default loopback address, which needs no pin: skip reading the file.
    if (base_url.startsWith("http://127.0.0.1")) return { pin: undefined, insecure_http: false };
    const { transportTo } = await import("./trust.ts");
    return transportTo(base_url, this.flags, this.environment);
  }

  /** Returns a new UUIDv4. The server uses it to deduplicate the retries of one call. */
  idempotencyKey(): string {
    const bytes = Buffer.from(this.clock.randomBytes(16));
    bytes[6] = (bytes[6]! & 0x0f) | 0x40;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  }

  /** Returns a signal that aborts on the first Ctrl-C, so that the command can print its own message. A second Ctrl-C ends the process. */
  interruptible(): AbortSignal {
    const controller = new AbortController();
    process.removeAllListeners("SIGINT");
    process.once("SIGINT", () => controller.abort(new Failure(EXIT.interrupted, "interrupted", { bare: true, document: undefined })));
    return controller.signal;
  }

  failure(error: unknown): Failure {
    return toFailure(error, this.#base_url_source, this.#pinned);
  }

  #noteRetry(wait_ms: number, error: Error): void {
    if (wait_ms >= RETRY_NOTE_MS_MIN && !this.structured) this.out.note(`${error.message}; retrying in ${Math.ceil(wait_ms / 1000)} s`);
  }
}

/** Refuses to send secrets to another machine unencrypted unless the user has allowed it. */
async function refuseExposed(base_url: string): Promise<void> {
  if (!base_url.startsWith("http:")) return;
  const { isExposed } = await import("./trust.ts");
  if (!isExposed(base_url)) return;
  throw usage(
    `${base_url} is plain http to another machine: the token could be read in transit`,
    "Use https://, which `roamfleet serve --tls auto` provides.",
    "On a trusted network: rf login --allow-insecure-http, or ROAMFLEET_ALLOW_INSECURE_HTTP=1.",
  );
}
