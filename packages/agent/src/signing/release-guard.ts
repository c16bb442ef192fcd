import type { DesiredRelease } from "@roamfleet/protocol/link";
import { nextTrust, parseReleaseStatement, parseSignedText, type Trust } from "@roamfleet/protocol/signatures";
import type { Clock, Fetcher, Logger } from "../contract.ts";
import { StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { admitRelease, afterRun, type Guard, type GuardedApp, type SignedHistory } from "./admit-release.ts";
import { readTrust, writeTrust } from "./pinned-trust.ts";
import { fetchSmall } from "../runtime/download.ts";

export interface ReleaseGuardOptions {
  state_directory: string;
  org_id: string;
  robot_id: string;
  labels: Readonly<Record<string, string>>;
  clock: Clock;
  /**
   * Returns the server's time in milliseconds since 1970, for a robot whose clock is behind. The later of this and the robot's time is
   * used. So a wrong time of the server can only make more signatures expire.
   */
  server_time: () => number;
  fetcher: Fetcher;
  log: Logger;
}

/** Maximum age of the last query for keys at which "lately" causes no new query. */
const ASKED_LATELY_MS = 60_000;

/** Decides from the robot's trusted keys which releases may be installed, independently of the server. */
export class ReleaseGuard implements Guard {
  readonly #options: ReleaseGuardOptions;
  #trust: Trust | undefined;
  #asked_at = -Infinity;
  readonly #listeners = new Set<() => void>();

  constructor(options: ReleaseGuardOptions) {
    this.#options = options;
    this.#trust = readTrust(options.state_directory, () =>
      options.log.error("the signing keys on disk are damaged: nothing is installed until they are set again with rf-agent trust-key"),
    );
  }

  get trust(): Trust | undefined {
    return this.#trust;
  }

  get requires_signature(): boolean {
    return this.#trust?.require_signature === true;
  }

  /**
   * Returns whether signatures are required. If they are optional so far, first queries the server for newer key statements, unless a
   * query was made within the last minute.
   */
  async askRequired(signal: AbortSignal): Promise<boolean> {
    if (this.#trust !== undefined && !this.requires_signature) await this.#refresh("lately", signal);
    return this.requires_signature;
  }

  /** Calls `listener` when signatures become required. Returns the function that removes the listener. */
  onRequired(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async admit(
    { app, current, previous, signed: history }: GuardedApp,
    release: DesiredRelease,
    { asked, signal }: { asked: "now" | "lately"; signal: AbortSignal },
  ): Promise<DesiredRelease> {
    const { org_id, robot_id, labels, clock, server_time } = this.#options;
    if (this.#trust !== undefined || (release.signature !== null && release.signature !== undefined)) await this.#refresh(asked, signal);
    throwIfAborted(signal);
    const known = [current, previous].filter((one) => one !== null);
    const now_ms = Math.max(clock.now().getTime(), server_time());
    const verdict = admitRelease({ trust: this.#trust, history, org_id, robot_id, labels, now_ms, app, release, known });
    if ("release" in verdict) return verdict.release;
    throw new StepFailure("signature_invalid", `${verdict.refusal.check}: ${verdict.refusal.message}`);
  }

  ran(history: SignedHistory | undefined, { signature }: DesiredRelease): SignedHistory | undefined {
    const signed = this.#trust === undefined ? undefined : parseSignedText(signature);
    const statement = signed && parseReleaseStatement(signed.text);
    return statement === undefined ? history : afterRun(history, statement);
  }

  /**
   * Queries the server for newer key statements and applies those that trusted keys have signed. If the server is unreachable, nothing
   * changes.
   */
  async #refresh(asked: "now" | "lately", signal: AbortSignal): Promise<void> {
    const { clock, fetcher, log, org_id, state_directory } = this.#options;
    if (asked === "lately" && clock.monotonic() - this.#asked_at < ASKED_LATELY_MS) return;
    try {
      const statements = await fetchStatements(this.#trust?.serial ?? 0, { fetcher, clock, signal });
      this.#asked_at = clock.monotonic();
      for (const statement of statements) {
        const taken = nextTrust(this.#trust, org_id, statement);
        if ("refusal" in taken) {
          log.warn({ why: taken.refusal }, "refused a change of the signing keys");
          continue;
        }
        writeTrust(state_directory, taken.trust);
        const was_required = this.requires_signature;
        this.#trust = taken.trust;
        if (this.requires_signature && !was_required) for (const listener of this.#listeners) listener();
        const { serial, require_signature, keys } = taken.trust;
        log.info({ serial, require_signature, keys: keys.map(({ name }) => name) }, "the signing keys changed");
      }
    } catch (error) {
      log.warn({ err: error }, "could not query the server for newer signing keys");
    }
  }
}

const ANSWER_BYTES_MAX = 4 * 1024 * 1024;
const ANSWER_WITHIN_MS = 15_000;

/** Queries the server for key statements with a higher serial number. They are not verified yet. Throws if the server does not answer. */
async function fetchStatements(after: number, options: { fetcher: Fetcher; clock: Clock; signal: AbortSignal }): Promise<unknown[]> {
  const bounds = { within_ms: ANSWER_WITHIN_MS, bytes_max: ANSWER_BYTES_MAX };
  const answer = await fetchSmall(`/agent/signing?after=${after}`, { ...options, ...bounds });
  const { items } = JSON.parse(answer.toString()) as { items?: unknown };
  return Array.isArray(items) ? items : [];
}
