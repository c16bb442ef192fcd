import type { ReactNode } from "react";
import type { Draft, Errors } from "./draft.ts";

/** What each part of the editor of a rollout gets. */
export interface EditorParts {
  draft: Draft;
  errors: Errors;
  onChange: (change: Partial<Draft>) => void;
}

/** Fields side by side where there is room. */
export const Row = ({ children }: { children: ReactNode }) => <div className="grid gap-x-3 sm:grid-cols-2">{children}</div>;
