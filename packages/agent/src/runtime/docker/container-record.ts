import fs from "node:fs";
import path from "node:path";
import type { DesiredLayers } from "@roamfleet/protocol/link";
import { makeDirectory, readJson, writeJson } from "../../disk/write-atomically.ts";
import type { StatePaths } from "../paths.ts";

export interface Kept {
  container_id: string;
  release_id: string;
}

/** The containers of an app, stored on disk before each change of them. */
export interface ContainerRecord {
  /** The container to run. */
  current: Kept | null;
  /** The container for a rollback, unchanged: stopped, or still running beside. */
  old: Kept | null;
  /** The current container was verified. */
  settled: boolean;
  /** The current container was stopped on purpose and kept. */
  stopped: boolean;
}

export const NO_CONTAINERS: ContainerRecord = { current: null, old: null, settled: false, stopped: false };

const recordFile = (paths: StatePaths, app: string): string => path.join(paths.app(app), "container.json");
const readingFile = (paths: StatePaths, app: string): string => path.join(paths.app(app), "container-log.json");
const imageFile = (directory: string): string => path.join(directory, "image.json");

export const hasRecord = (paths: StatePaths, app: string): boolean => fs.existsSync(recordFile(paths, app));

/** Reads the record. A damaged one counts as empty: the containers are found by their labels. */
export function readRecord(paths: StatePaths, app: string): ContainerRecord {
  const value = readJson(recordFile(paths, app));
  return typeof value === "object" && value !== null ? { ...NO_CONTAINERS, ...value } : NO_CONTAINERS;
}

export function writeRecord(paths: StatePaths, app: string, record: ContainerRecord): void {
  makeDirectory(paths.app(app), 0o755);
  writeJson(recordFile(paths, app), record);
}

/** Returns the nanoseconds since 1970 up to which the container's output was read; 0 for another container. */
export function readReading(paths: StatePaths, app: string, container_id: string): bigint {
  const value = readJson(readingFile(paths, app));
  if (typeof value !== "object" || value === null) return 0n;
  const reading = value as { container_id?: unknown; read_until?: unknown };
  return reading.container_id === container_id && typeof reading.read_until === "string" && /^\d{1,20}$/.test(reading.read_until)
    ? BigInt(reading.read_until)
    : 0n;
}

export function writeReading(paths: StatePaths, app: string, container_id: string, read_until: bigint): void {
  if (fs.existsSync(paths.app(app))) writeJson(readingFile(paths, app), { container_id, read_until: String(read_until) });
}

/** The agent's record of a staged image: the engine has the image itself. */
export interface StagedImage {
  image_id: string;
  /** Digests of its parts in the layer cache. */
  parts: string[];
}

export function writeStagedImage(directory: string, image_id: string, layers: DesiredLayers | null | undefined): void {
  makeDirectory(directory, 0o755);
  const parts = layers ? [layers.config, ...layers.layers].map(({ sha256 }) => sha256) : [];
  writeJson(imageFile(directory), { image_id, parts } satisfies StagedImage);
}

export function readStagedImage(directory: string): StagedImage | undefined {
  const value = readJson(imageFile(directory)) as Partial<StagedImage> | undefined;
  return typeof value?.image_id === "string" && Array.isArray(value.parts) ? { image_id: value.image_id, parts: value.parts } : undefined;
}

/** Returns the digests of all layers of staged releases, of any app. */
export function stagedParts(paths: StatePaths): Set<string> {
  const parts = new Set<string>();
  if (!fs.existsSync(paths.apps)) return parts;
  for (const app of fs.readdirSync(paths.apps)) {
    const versions = path.join(paths.apps, app, "versions");
    if (!fs.existsSync(versions)) continue;
    for (const version of fs.readdirSync(versions))
      for (const part of readStagedImage(path.join(versions, version))?.parts ?? []) parts.add(part);
  }
  return parts;
}
