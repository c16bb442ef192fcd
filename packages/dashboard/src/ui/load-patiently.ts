import { type ComponentType, lazy } from "react";

const RELOADED = "roamfleet.reloaded";
const TRY_EVERY_MS = 2_000;

/**
 * Loads code when it is needed. Retries while the server does not respond. If the server was updated and no longer has the file, reloads
 * the browser once.
 */
export async function loadPatiently<M>(load: () => Promise<M>): Promise<M> {
  for (;;) {
    try {
      const loaded = await load();
      sessionStorage.removeItem(RELOADED);
      return loaded;
    } catch (error) {
      if (await isServed()) {
        if (sessionStorage.getItem(RELOADED) !== null) throw error;
        sessionStorage.setItem(RELOADED, "1");
        window.location.reload();
        // Never resolves: the reload replaces the page.
        await new Promise(() => {});
      }
    }
    await new Promise((resolve) => setTimeout(resolve, TRY_EVERY_MS));
  }
}

/**
 * A part of a page whose code is a separate chunk, so that the page appears first. Until it is loaded, the page shows the fallback of its
 * `Suspense`. A plain `lazy` would replace the whole page by an error if the server does not respond at that time.
 */
export const lazyPart = <Name extends string, Props>(load: () => Promise<Record<Name, ComponentType<Props>>>, name: Name) =>
  lazy(async () => ({ default: (await loadPatiently(load))[name] }));

/** Returns whether the server responds, so that a reload would succeed. */
async function isServed(): Promise<boolean> {
  try {
    return (await fetch("/", { method: "HEAD", signal: AbortSignal.timeout(TRY_EVERY_MS) })).ok;
  } catch {
    return false;
  }
}
