import path from "node:path";
import { readJson, writeJson } from "../disk/write-atomically.ts";
import { fieldsOf } from "../json.ts";

/**
 * State of an image that is not confirmed yet. `writing`: the other slot may be incomplete. `written`: it is complete, and the next boot
 * still starts the old slot. `activating`: the next boot starts the new slot. `reverting`: the next boot starts the old slot again.
 */
export type ImagePhase = "writing" | "written" | "activating" | "reverting";

/** An image that is being installed. This record is made durable before each step that changes which slot the next boot starts. */
export interface ImageChange {
  app: string;
  release_id: string;
  tag: string;
  sha256: string;
  phase: ImagePhase;
  /** Slot of the system that was running before. */
  from: string;
  /** Slot of the image. */
  to: string;
  /** Boot in which the phase began. */
  boot_id: string;
  /** Apps that were healthy before the reboot, and must be healthy after it. */
  apps: string[];
}

export interface ConfirmedImage {
  app: string;
  release_id: string;
  slot: string;
  /** Slot of the system that was running before; null once it is being overwritten. */
  previous: string | null;
}

export interface ImageRecord {
  confirmed: ConfirmedImage | null;
  change: ImageChange | null;
}

const PHASES: readonly unknown[] = ["writing", "written", "activating", "reverting"];

/** The record of the robot's OS images, in the agent's state directory. Both systems must share this directory. */
export class ImageRecordFile {
  readonly #file: string;
  #record: ImageRecord;

  constructor(root: string, damaged: () => void) {
    this.#file = path.join(root, "os-image.json");
    this.#record = readRecord(readJson(this.#file, damaged), damaged);
  }

  get value(): ImageRecord {
    return this.#record;
  }

  /** Writes the record and fsyncs it. */
  write(change: Partial<ImageRecord>): void {
    const next = { ...this.#record, ...change };
    writeJson(this.#file, next);
    this.#record = next;
  }
}

function readRecord(value: unknown, damaged: () => void): ImageRecord {
  const { confirmed = null, change = null } = fieldsOf(value);
  const { slot, release_id } = fieldsOf(confirmed);
  const { phase, from, to, apps } = fieldsOf(change);
  const is_valid =
    (confirmed === null || (typeof slot === "string" && typeof release_id === "string")) &&
    (change === null || (PHASES.includes(phase) && typeof from === "string" && typeof to === "string" && Array.isArray(apps)));
  if (is_valid) return { confirmed: confirmed as ConfirmedImage | null, change: change as ImageChange | null };
  damaged();
  return { confirmed: null, change: null };
}
