import { type Clock, systemClock } from "@robofleet/clock";
import type { Client } from "@robofleet/sdk";
import type { Environment } from "./config.ts";
import { type Access, type Flags, isToken, resolveAccess } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure, toFailure, usage } from "./failure.ts";
import type { Output } from "./output.ts";
import type { Transport } from "./trust.ts";

/** A wait that is worth a line: shorter ones are over before they are read. */
const RETRY_NOTE_MS_MIN = 2_000;

/** What a command runs with. */
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

  /** True when stdout is for programs: one document and nothing else. */
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

  /** The client of a logged-in person. */
  async client(): Promise<Client> {
    const access = await this.access();
    if (access.token === undefined) {
      const profile = this.flags.profile ?? this.environment.profile;
      const login = profile === undefined ? "rf login" : `rf login --profile ${profile}`;
      if (access.token_origin !== undefined) {
        throw new Failure(EXIT.auth, `the saved token is for ${access.token_origin}, and is not sent to ${access.base_url}`, {
          hints: [
            `The address is from ${access.base_url_source}.`,
            `Run \`rf login --profile NAME --base-url ${access.base_url}\`, or set ROBOFLEET_TOKEN.`,
          ],
        });
      }
      throw new Failure(EXIT.auth, "you are not logged in", { hints: [`Run \`${login}\`, or set ROBOFLEET_TOKEN.`] });
    }
    return this.connect({ base_url: access.base_url, token: access.token, org_id: access.org_id });
  }

  async connect(options: {
    base_url: string;
    token?: string | undefined;
    org_id?: string | undefined;
    admin_token?: string | undefined;
    retries?: number;
    /** What the credentials file says, if it is not to be asked. */
    transport?: Transport;
  }): Promise<Client> {
    const { transport: given, ...rest } = options;
    const { pin, insecure_http } = given ?? (await this.#transport(options.base_url));
    const secret = options.token ?? options.admin_token;
    if (secret !== undefined && !isToken(secret)) {
      const [name, hint] =
        options.token === undefined
          ? ["admin token", "It is from --admin-token or ROBOFLEET_ADMIN_TOKEN."]
          : ["token", "It is from ROBOFLEET_TOKEN or the credentials file; `rf login` saves another one."];
      throw usage(`the ${name} holds spaces or characters that a token cannot have`, hint);
    }
    if (secret !== undefined && !insecure_http && !this.environment.allow_insecure_http) await refuseExposed(options.base_url);
    this.#pinned = pin?.fingerprint;
    const { createClient } = await import("@robofleet/sdk");
    try {
      return createClient({ ...rest, ca: pin?.pem, clock: this.clock, on_retry: ({ wait_ms, error }) => this.#tellRetry(wait_ms, error) });
    } catch (error) {
      if (error instanceof TypeError) throw usage(error.message, `The address is from ${this.#base_url_source ?? "--base-url"}.`);
      throw error;
    }
  }

  /** Fingerprint of the authority that the client of this call trusts; undefined for those that the machine knows. */
  get pinned(): string | undefined {
    return this.#pinned;
  }

  async #transport(base_url: string): Promise<Transport> {
    // The address of `robofleet serve` needs nothing of this, and most calls go there.
    if (base_url.startsWith("http://127.0.0.1")) return { pin: undefined, insecure_http: false };
    const { transportTo } = await import("./trust.ts");
    return transportTo(base_url, this.flags, this.environment);
  }

  /** A fresh UUIDv4: the same call sent twice then happens once. */
  idempotencyKey(): string {
    const bytes = Buffer.from(this.clock.randomBytes(16));
    bytes[6] = (bytes[6]! & 0x0f) | 0x40;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  }

  /** Aborts at the first Ctrl-C, so that a command can end in its own words; the second one ends the process. */
  interruptible(): AbortSignal {
    const controller = new AbortController();
    process.removeAllListeners("SIGINT");
    process.once("SIGINT", () => controller.abort(new Failure(EXIT.interrupted, "interrupted", { bare: true, document: undefined })));
    return controller.signal;
  }

  failure(error: unknown): Failure {
    return toFailure(error, this.#base_url_source, this.#pinned);
  }

  #tellRetry(wait_ms: number, error: Error): void {
    if (wait_ms >= RETRY_NOTE_MS_MIN && !this.structured) this.out.note(`${error.message}, trying again in ${Math.ceil(wait_ms / 1000)} s`);
  }
}

/** Nothing secret goes to another machine in the clear unless that was asked for. */
async function refuseExposed(base_url: string): Promise<void> {
  if (!base_url.startsWith("http:")) return;
  const { isExposed } = await import("./trust.ts");
  if (!isExposed(base_url)) return;
  throw usage(
    `${base_url} is plain http to another machine: everybody on the way could read the token`,
    "Use https://, which `robofleet serve --tls auto` speaks without further ado.",
    "Where the network between is trusted: rf login --allow-insecure-http, or ROBOFLEET_ALLOW_INSECURE_HTTP=1.",
  );
}
