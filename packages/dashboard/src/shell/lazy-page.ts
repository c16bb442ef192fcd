import { lazyRouteComponent } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { loadPatiently } from "../ui/load-patiently.ts";

/**
 * Loads the module of a page component. The component's result is declared as void, because its real type depends on the router's type,
 * which depends on this type.
 */
export type Load<Name extends string> = () => Promise<Record<Name, () => void>>;

/** Loads the code of a page when the page is opened. */
export const lazyPage = <Name extends string>(load: Load<NoInfer<Name>>, name: Name) =>
  lazyRouteComponent(() => loadPatiently(load as () => Promise<Record<string, () => ReactNode>>), name);
