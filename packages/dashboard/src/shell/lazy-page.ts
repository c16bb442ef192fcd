import { lazyRouteComponent } from "@tanstack/react-router";

const RELOADED = "roamfleet.reloaded";
const TRY_EVERY_MS = 2_000;

/**
 * A page that is loaded when it is opened. While the server does not answer, loading waits; when the server has been updated and no
 * longer has this file, the browser reloads once.
 */
export function lazyPage<M extends Record<string, unknown>, K extends keyof M & string>(load: () => Promise<M>, name: K) {
  return lazyRouteComponent(() => loadPatiently(load), name);
}

async function loadPatiently<M>(load: () => Promise<M>): Promise<M> {
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
        // Nothing is shown until the reload.
        await new Promise(() => {});
      }
    }
    await new Promise((resolve) => setTimeout(resolve, TRY_EVERY_MS));
  }
}

/** Whether the server answers with the page, that is, whether a reload would show one. */
async function isServed(): Promise<boolean> {
  try {
    return (await fetch("/", { method: "HEAD", signal: AbortSignal.timeout(TRY_EVERY_MS) })).ok;
  } catch {
    return false;
  }
}
