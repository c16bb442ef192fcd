import { useSyncExternalStore } from "react";

/** Whether anybody can see this page: false in a tab behind others. */
export const useIsVisible = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      document.addEventListener("visibilitychange", listener);
      return () => document.removeEventListener("visibilitychange", listener);
    },
    () => document.visibilityState === "visible",
  );
