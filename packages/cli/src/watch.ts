import { isTerminal } from "@roamfleet/protocol";
import { ApiError, type Body, type Client, Unreachable } from "@roamfleet/sdk";
import type { Context } from "./context.ts";
import { relative } from "./duration.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { line, plain } from "./text.ts";
import { explainWaves } from "./waves.ts";

const POLL_MS = 2_000;
/** If nothing changes for this long, rf prints the reason, and prints it again after each further interval of this length. */
export const STILL_MS = 60_000;
/** The watch fails if the server is unreachable for longer than this; a restart takes less. */
const UNREACHABLE_MS_MAX = 300_000;
export const TARGETS_EXPLAINED_MAX = 1_000;
const TARGETS_SHOWN_MAX = 10;

type Deployment = Body<"getDeployment">["data"];
type DeploymentEvent = Body<"listDeploymentEvents">["items"][number];
type Target = Body<"listDeploymentTargets">["items"][number];

/**
 * Polls the events of a deployment every 2 seconds and shows progress until the first terminal status. Throws a Failure if that status is
 * not in `wanted`. Ctrl-C also throws a Failure; the deployment continues.
 */
export async function watchDeployment(
  context: Context,
  client: Client,
  start: Deployment,
  wanted: readonly Deployment["status"][] = ["applied"],
): Promise<void> {
  const signal = context.interruptible();
  const watch = new Watch(context, client, start, signal);
  try {
    const last = await watch.run();
    await finish(context, client, watch.deployment, last, wanted);
  } catch (error) {
    if (!signal.aborted) throw error;
    const message = `stopped watching; the deployment continues. Follow it: rf deployments watch ${start.id}`;
    throw new Failure(EXIT.interrupted, message, { bare: true, document: { data: watch.deployment } });
  } finally {
    watch.clear();
  }
}

interface Polled<T> {
  /** Reads the watched object. Returns undefined until it has ended. */
  read: () => Promise<T | undefined>;
  /** Called with a message for the user after a failure that is retried. Structured output has no such message. */
  on_retry: (text: string) => void;
}

/** Calls `read` every 2 seconds until it returns a value. Retries for 5 minutes while the server is unreachable or fails. */
export async function poll<T>(context: Context, signal: AbortSignal, { read, on_retry }: Polled<T>): Promise<T> {
  const { clock, structured } = context;
  let reached_at_ms = clock.monotonic();
  for (;;) {
    try {
      const last = await read();
      if (last !== undefined) return last;
      reached_at_ms = clock.monotonic();
    } catch (error) {
      const passing =
        error instanceof Unreachable ? error.passing : error instanceof ApiError && (error.status >= 500 || error.status === 429);
      if (signal.aborted || !passing || clock.monotonic() - reached_at_ms > UNREACHABLE_MS_MAX) throw error;
      if (!structured) on_retry(plain(`${error instanceof Error ? error.message : ""}; retrying`));
    }
    await clock.sleep(POLL_MS, signal);
    signal.throwIfAborted();
  }
}

class Watch {
  deployment: Deployment;
  readonly #context: Context;
  readonly #client: Client;
  readonly #signal: AbortSignal;
  #shown = "";
  #events_seen = 0;
  #state = "";
  #moved_at_ms: number;

  constructor(context: Context, client: Client, start: Deployment, signal: AbortSignal) {
    this.#context = context;
    this.#client = client;
    this.#signal = signal;
    this.deployment = start;
    this.#moved_at_ms = context.clock.monotonic();
  }

  /** Returns the event with the first terminal status. */
  run(): Promise<DeploymentEvent> {
    const read = async (): Promise<DeploymentEvent | undefined> => {
      const { items } = await this.#client.listDeploymentEvents({ params: { id: this.deployment.id }, signal: this.#signal });
      const last = items.find(({ status }) => isTerminal(status));
      if (!this.#context.structured) await this.#show(items, last);
      return last;
    };
    return poll(this.#context, this.#signal, { read, on_retry: (text) => this.#progress(text) });
  }

  async #show(events: readonly DeploymentEvent[], last: DeploymentEvent | undefined): Promise<void> {
    const { out, clock } = this.#context;
    for (const event of events.slice(this.#events_seen)) {
      this.clear();
      out.line(line`${out.paint("quiet", event.at)}  ${out.status(event.status)}  ${event.message}`);
    }
    this.#events_seen = Math.max(this.#events_seen, events.length);
    const { data } = await this.#client.getDeployment({ params: { id: this.deployment.id }, signal: this.#signal });
    this.deployment = data;
    if (last !== undefined) return;
    const targets = data.counts.total === 1 ? await this.#targets(1) : [];
    const progress = progressText(data, targets[0]);
    const state = JSON.stringify([events.length, data.counts, targets]);
    const now_ms = clock.monotonic();
    if (state !== this.#state) this.#moved_at_ms = now_ms;
    else if (now_ms - this.#moved_at_ms >= STILL_MS) {
      this.#moved_at_ms = now_ms;
      this.clear();
      const now = this.#context.now();
      const list = () => this.#client.listDeploymentWaves({ params: { id: data.id }, signal: this.#signal });
      for (const reason of explainStillness(data, await this.#targets(TARGETS_EXPLAINED_MAX), now, WAITS)) out.note(reason);
      for (const reason of await explainWaves(data, "deployments", now, list)) out.note(reason);
    }
    this.#state = state;
    this.#progress(progress);
  }

  async #targets(limit: number): Promise<Target[]> {
    return (await this.#client.listDeploymentTargets({ params: { id: this.deployment.id }, query: { limit }, signal: this.#signal })).items;
  }

  /** Prints progress: one overwritten line on a terminal, otherwise a line per change. */
  #progress(text: string): void {
    if (!this.#context.out.can_animate) {
      if (text !== this.#shown) this.#context.out.line(text);
    } else {
      const width = process.stderr.columns || 80;
      process.stderr.write(`\r\u001b[2K${text.slice(0, width - 1)}`);
    }
    this.#shown = text;
  }

  /** Removes the status line. */
  clear(): void {
    if (this.#shown !== "" && this.#context.out.can_animate) process.stderr.write("\r\u001b[2K");
  }
}

function progressText({ status, counts, wave, wave_count }: Deployment, only: Target | undefined): string {
  if (only !== undefined) {
    const share =
      only.status !== "downloading" || only.progress === null || only.progress.bytes_total === 0
        ? ""
        : ` ${Math.floor((100 * only.progress.bytes_done) / only.progress.bytes_total)}%`;
    return plain(`${status}: robot ${only.status}${share}${only.waiting_for === null ? "" : `, waiting for ${only.waiting_for}`}`);
  }
  const parts = (["pending", "queued", "active", "failed", "rolled_back", "cancelled"] as const).flatMap((name) =>
    counts[name] === 0 ? [] : [`${counts[name]} ${name}`],
  );
  const of_waves = wave_count > 1 ? `, wave ${wave + 1} of ${wave_count}` : "";
  return plain([`${status}${of_waves}: ${counts.applied} of ${counts.total} applied`, ...parts].join(", "));
}

export const WAITS: Record<string, string> = {
  robot_online: "are offline; they update when they reconnect",
  artifact: "are waiting for the release's artifact; upload it with rf releases push",
  previous_deployment: "are still installing an older release",
  approval: "are waiting for approval by an admin; their config has secrets",
  slot: "are waiting: concurrency limit reached",
  window: "are waiting for their maintenance window",
  gate: "are waiting for promotion of the next wave",
  robot: "postpone the update: the update lock is held, or it is not safe to update now",
};

/**
 * Returns the reasons why nothing changes, one sentence each. `words` maps a value of `waiting_for` to the end of its sentence.
 */
export function explainStillness(
  { status, scheduled_at, counts }: Pick<Deployment, "status" | "scheduled_at" | "counts">,
  targets: readonly Pick<Target, "status" | "waiting_for">[],
  now: Date,
  words: Readonly<Record<string, string>>,
): string[] {
  if (status === "scheduled") return [`scheduled: it starts ${relative(scheduled_at, now)}, at ${plain(scheduled_at)}`];
  return explainWaits(counts.total, targets, words);
}

/** Returns what the unfinished robots are waiting for, one sentence per reason. */
function explainWaits(
  total: number,
  targets: readonly Pick<Target, "status" | "waiting_for">[],
  words: Readonly<Record<string, string>>,
): string[] {
  const groups = new Map<string, number>();
  for (const { status, waiting_for } of targets) {
    if (isTerminal(status)) continue;
    const key = waiting_for === null ? `are ${status}` : (words[waiting_for] ?? `are waiting for ${waiting_for}`);
    groups.set(key, (groups.get(key) ?? 0) + 1);
  }
  if (groups.size === 0) return ["no change for a minute"];
  return [...groups].map(([what, count]) => plain(`no change for a minute: ${count} of ${total} robots ${what}`));
}

async function finish(
  context: Context,
  client: Client,
  known: Deployment,
  last: DeploymentEvent,
  wanted: readonly Deployment["status"][],
): Promise<void> {
  const { out } = context;
  const answer = await client
    .getDeployment({ params: { id: known.id } })
    .catch(() => ({ data: { ...known, status: last.status, reason: last.reason } }));
  const { id, counts, release, reason } = answer.data;
  if (last.status === "applied" && wanted.includes("applied")) {
    return out.result(answer, () =>
      out.line(line`${out.status("applied")}: ${release.tag} runs on ${counts.applied} of ${counts.total} robots (${id})`),
    );
  }
  if (wanted.includes(last.status))
    return out.result(answer, () =>
      out.line(line`${out.status(last.status)}: ${counts.rolled_back} of ${counts.total} robots rolled back (${id})`),
    );
  const why = reason ?? last.reason;
  const hints = [...(context.structured ? [] : await failedTargets(client, id)), `Details: rf deployments show ${id}`];
  throw new Failure(EXIT.not_applied, `deployment ${id} ended ${last.status}${why === null ? "" : `: ${why}`}`, {
    hints,
    document: answer,
  });
}

async function failedTargets(client: Client, id: string): Promise<string[]> {
  const { items } = await client.listDeploymentTargets({ params: { id }, query: { limit: TARGETS_EXPLAINED_MAX } });
  const lines = items
    .filter(({ status }) => status !== "applied")
    .map(({ robot_id, status, reason }) => `${robot_id}: ${status}${reason === null ? "" : `, ${reason}`}`);
  return lines.length > TARGETS_SHOWN_MAX ? [...lines.slice(0, TARGETS_SHOWN_MAX), `and ${lines.length - TARGETS_SHOWN_MAX} more`] : lines;
}
