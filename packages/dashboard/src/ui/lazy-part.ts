import { type ComponentType, lazy } from "react";

/** Key of the time of the last reload, in ms since 1970. */
const RELOADED = "roamfleet.reloaded";
/** Minimum time between two reloads, so that a file that stays missing is reported. */
const RELOAD_EVERY_MS = 60_000;
const TRY_EVERY_MS = 2_000;

/** Loads the code of a part of a page when it is shown, with the retries of `loadPatiently`. */
export const lazyPart = <Props>(load: () => Promise<ComponentType<Props>>) => lazy(async () => ({ default: await loadPatiently(load) }));

/**
 * Loads code. Retries while the server does not respond. If the server was updated and no longer has the file, reloads the browser.
 *
 * @throws the error of the import if the file is still missing after the reload.
 */
export async function loadPatiently<M>(load: () => Promise<M>): Promise<M> {
  for (;;) {
    try {
      return await load();
    } catch (error) {
      if (await isServed()) {
        if (Math.abs(Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0)) < RELOAD_EVERY_MS) throw error;
        sessionStorage.setItem(RELOADED, String(Date.now()));
        window.location.reload();
        // Never resolves: the reload replaces the page.
        await new Promise(() => {});
      }
    }
    await new Promise((resolve) => setTimeout(resolve, TRY_EVERY_MS));
  }
}

/** Returns whether the server responds. Otherwise a reload would replace the page by an error of the browser. */
async function isServed(): Promise<boolean> {
  try {
    return (await fetch("/", { method: "HEAD", signal: AbortSignal.timeout(TRY_EVERY_MS) })).ok;
  } catch {
    return false;
  }
}
