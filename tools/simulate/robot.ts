import type { Clock } from "@roamfleet/clock";
import type { Desired, DesiredRelease, Report, ReportBody } from "@roamfleet/protocol/link";
import { MemoryOutbox } from "../../packages/swarm/src/memory.ts";
import { AppRunner, type Behavior, type AppHost } from "../../packages/swarm/src/testing/app-runner.ts";
import type { Chance } from "./chance.ts";

/** Probability that the next message follows immediately. */
export const MORE_PROBABILITY = 0.6;

/** The behavior of a robot on which every installation succeeds. */
export const HEALTHY: Behavior = {};

/** A message from the server to a robot. */
export type Down = { type: "ack"; seq: number } | Desired;

/** A robot's connection, with the messages in transit. */
export interface Link {
  up: Report[];
  down: Down[];
}

/**
 * A simulated robot: the agent's own plan and journal, an outbox that survives crashes, and links that break. The schedule decides when
 * messages arrive.
 */
export class Robot implements AppHost {
  readonly id: string;
  readonly clock: Clock;
  readonly kinds: readonly string[] = ["app_bundle"];
  readonly outbox: MemoryOutbox;
  readonly apps = new Map<string, AppRunner>();
  behavior: Behavior = {};
  link: Link | undefined;
  /** Broken links from which the server still reads some reports. */
  late: Link[] = [];
  /** All reports of this robot about targets. */
  readonly reported = new Set<string>();
  generation = 0;
  /** The agent will crash after its next journal entry, before it reports that entry. */
  will_crash = false;
  /** The agent has crashed: later reports are lost. */
  crashed = false;

  constructor(id: string, clock: Clock) {
    this.id = id;
    this.clock = clock;
    this.outbox = new MemoryOutbox(`outbox-${id}`);
  }

  behaviorOf(_: DesiredRelease): Behavior {
    return this.behavior;
  }

  report(body: ReportBody): void {
    if (this.will_crash && body.kind === "target") this.crashed = true;
    if (this.crashed) return;
    if (body.kind === "target") this.reported.add(reportKey(body.target_id, body.attempt, body.status));
    const report = this.outbox.add(body, this.clock.now().toISOString());
    this.link?.up.push(report);
  }

  progress(): void {
    // The simulation ignores progress: it is not durable, and no state depends on it.
  }

  loseLink(): void {
    this.cut(Infinity);
  }

  /** Breaks the link. The server still reads the first `arrived` reports in transit. */
  cut(arrived: number): void {
    const { link } = this;
    if (link === undefined) return;
    this.link = undefined;
    const up = link.up.slice(0, arrived);
    if (up.length > 0) this.late.push({ up, down: [] });
  }

  /** Loses power, and starts again from the journal. */
  crash(): void {
    this.will_crash = false;
    this.crashed = false;
    this.cut(0);
    for (const app of this.apps.values()) app.resume();
  }

  welcome({ acked_seq, desired }: { acked_seq: number; desired: Desired | undefined }): void {
    this.link = { up: [], down: desired === undefined ? [] : [desired] };
    this.outbox.acknowledge(acked_seq);
    this.link.up.push(...this.outbox.waiting);
    for (const app of this.apps.values()) app.announce();
  }

  /** Takes the next message of the server, and perhaps further ones. Messages may be lost, repeated or swapped. */
  hear(chance: Chance): void {
    const { link } = this;
    if (link === undefined) return;
    // Deliver the second message first, because the server may write two desired states to the socket in either order.
    const at = link.down.length > 1 && chance.happens(0.1) ? 1 : 0;
    const [message] = link.down.splice(at, 1);
    if (message === undefined) return;
    if (message.type === "desired" && chance.happens(0.02)) return;
    if (message.type === "desired" && chance.happens(0.05)) this.take(message);
    this.take(message);
    if (chance.happens(MORE_PROBABILITY)) this.hear(chance);
  }

  take(message: Down): void {
    if (message.type === "ack") return this.outbox.acknowledge(message.seq);
    if (message.generation <= this.generation) return;
    this.generation = message.generation;
    this.report({ kind: "observed", generation: message.generation });
    for (const app of Object.keys(message.apps)) if (!this.apps.has(app)) this.apps.set(app, new AppRunner(app, this));
    for (const [app, runner] of this.apps) runner.wishFor(message.apps[app] ?? "absent");
  }

  /** Returns the id of the release that an app runs. */
  runs(app: string): string | null {
    return this.apps.get(app)?.state.current?.id ?? null;
  }

  get idle(): boolean {
    return [...this.apps.values()].every(({ state }) => state.work === null);
  }
}

export const reportKey = (target_id: string, attempt: number, status: string): string => `${target_id} ${attempt} ${status}`;
