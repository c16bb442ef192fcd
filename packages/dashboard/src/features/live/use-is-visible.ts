import { useSyncExternalStore } from "react";

/** Whether the page is visible; false in a background tab. */
export const useIsVisible = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      document.addEventListener("visibilitychange", listener);
      return () => document.removeEventListener("visibilitychange", listener);
    },
    () => document.visibilityState === "visible",
  );
