import { lazyRouteComponent } from "@tanstack/react-router";
import type { ReactNode } from "react";

const RELOADED = "roamfleet.reloaded";
const TRY_EVERY_MS = 2_000;

/**
 * Loads the module of a page component. The component's result is declared as void, because its real type depends on the router's type,
 * which depends on this type.
 */
export type Load<Name extends string> = () => Promise<Record<Name, () => void>>;

/**
 * Loads the code of a page when the page is opened. Retries while the server does not respond. If the server was updated and no longer
 * has the file, reloads the browser once.
 */
export const lazyPage = <Name extends string>(load: Load<NoInfer<Name>>, name: Name) =>
  lazyRouteComponent(() => loadPatiently(load as () => Promise<Record<string, () => ReactNode>>), name);

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
        // Never resolves: the reload replaces the page.
        await new Promise(() => {});
      }
    }
    await new Promise((resolve) => setTimeout(resolve, TRY_EVERY_MS));
  }
}

/** Returns whether the server responds, so that a reload would succeed. */
async function isServed(): Promise<boolean> {
  try {
    return (await fetch("/", { method: "HEAD", signal: AbortSignal.timeout(TRY_EVERY_MS) })).ok;
  } catch {
    return false;
  }
}
