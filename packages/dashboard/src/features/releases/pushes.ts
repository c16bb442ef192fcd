import type { Release } from "@roamfleet/protocol/routes";
import { useSyncExternalStore } from "react";
import { api } from "../../api/client.ts";
import { readAgain } from "../../api/read-again.ts";
import { tellDone } from "../../ui/index.ts";
import { addSample, type Samples } from "./rate.ts";

/** An upload. It continues on other pages of the dashboard. Closing the dashboard stops it, and the server keeps the uploaded data. */
export interface Push {
  release_id: string;
  tag: string;
  size: number;
  stage: "uploading" | "paused" | "done" | "failed";
  done_bytes: number;
  /** The offset at which this attempt started, after data of earlier attempts. */
  began_at_bytes: number | undefined;
  samples: Samples;
  error?: unknown;
}

let pushes: readonly Push[] = [];
const files = new Map<string, File>();
const running = new Map<string, AbortController>();
const listeners = new Set<() => void>();

function put(release_id: string, change: Partial<Push>): void {
  pushes = pushes.map((push) => (push.release_id === release_id ? { ...push, ...change } : push));
  for (const listener of listeners) listener();
}

/** The uploads of this browser tab, newest first. */
export const usePushes = (): readonly Push[] =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => pushes,
  );

/** Uploads a file as the artifact of a release. Resumes an earlier upload. */
export function startPush({ id, tag, artifact_size }: Release, file: File): void {
  const begun: Push = {
    release_id: id,
    tag,
    size: artifact_size,
    stage: "uploading",
    done_bytes: 0,
    began_at_bytes: undefined,
    samples: [],
  };
  running.get(id)?.abort();
  files.set(id, file);
  pushes = [begun, ...pushes.filter(({ release_id }) => release_id !== id)];
  void run(id);
}

export const resumePush = (release_id: string): void => void run(release_id);

/** Pauses an upload. The server keeps the uploaded data. */
export function pausePush(release_id: string): void {
  running.get(release_id)?.abort();
  put(release_id, { stage: "paused" });
}

/** Removes an upload from the page; stops it if it is running. */
export function dismissPush(release_id: string): void {
  running.get(release_id)?.abort();
  files.delete(release_id);
  pushes = pushes.filter((push) => push.release_id !== release_id);
  for (const listener of listeners) listener();
}

async function run(release_id: string): Promise<void> {
  const file = files.get(release_id);
  if (file === undefined) return;
  const controller = new AbortController();
  running.set(release_id, controller);
  put(release_id, { stage: "uploading", samples: [], began_at_bytes: undefined, error: undefined });
  warnBeforeLeaving();
  try {
    const { data } = await api.upload({
      release_id,
      file,
      signal: controller.signal,
      on_progress: (done) => note(release_id, done),
    });
    files.delete(release_id);
    put(release_id, { stage: "done", done_bytes: data.artifact_size });
    tellDone(`${data.tag.slice(0, 80)} uploaded`);
  } catch (error) {
    if (!controller.signal.aborted) put(release_id, { stage: "failed", error });
  } finally {
    if (running.get(release_id) === controller) running.delete(release_id);
    warnBeforeLeaving();
    for (const name of ["listReleases", "getRelease"]) readAgain([name]);
  }
}

function note(release_id: string, done_bytes: number): void {
  const push = pushes.find((one) => one.release_id === release_id);
  if (push === undefined) return;
  put(release_id, {
    done_bytes,
    began_at_bytes: push.began_at_bytes ?? done_bytes,
    samples: addSample(push.samples, performance.now(), done_bytes),
  });
}

const ask = (event: BeforeUnloadEvent): void => event.preventDefault();

function warnBeforeLeaving(): void {
  if (running.size > 0) window.addEventListener("beforeunload", ask);
  else window.removeEventListener("beforeunload", ask);
}
