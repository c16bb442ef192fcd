import type { ConfigDeployment, Deployment, Rollout } from "@roamfleet/protocol/routes";
import type { Command } from "commander";
import { relative } from "./duration.ts";
import { usage } from "./failure.ts";
import { readRollout, type RolloutFlags } from "./rollout-options.ts";
import { line } from "./text.ts";

/** The options that choose when and how a new deployment starts. */
export interface StartOptions extends RolloutFlags {
  watch?: boolean;
  scheduledAt?: string;
  dryRun?: true;
  idempotencyKey?: string;
}

export const startOptions = (command: Command): Command =>
  command
    .option("--watch", "Follow the deployment until it ends")
    .option("--scheduled-at <rfc3339>", "Start the deployment at this time, such as 2030-01-31T22:00:00Z")
    .option("--dry-run", "Print the rollout plan without deploying")
    .option("--idempotency-key <uuid>", "Key that prevents a repeated call from taking effect twice (default: a fresh UUIDv4)");

/** Returns the fields of a request for its start and its rollout. Throws a usage Failure if options contradict each other. */
export async function startFields(
  options: StartOptions,
  now: Date,
): Promise<{ scheduled_at: string | undefined; rollout: Rollout | undefined; dry_run: true | undefined }> {
  if (options.dryRun && options.watch) throw usage("--dry-run and --watch cannot be used together");
  return { scheduled_at: options.scheduledAt, rollout: await readRollout(options, now), dry_run: options.dryRun };
}

/** Returns when a scheduled deployment starts, as a line; none if it has started. */
export const scheduleText = (
  { scheduled_at, status }: Pick<Deployment | ConfigDeployment, "scheduled_at" | "status">,
  now: Date,
): string[] =>
  scheduled_at === null || status !== "scheduled" ? [] : [line`The deployment starts ${relative(scheduled_at, now)}, at ${scheduled_at}.`];
