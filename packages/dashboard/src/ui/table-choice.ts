/** What the user chose for a table. */
export interface TableChoice {
  /** Names of the columns that are not shown. */
  hidden: readonly string[];
  is_dense: boolean;
}

const HIDDEN_MAX = 50;

/** Parses a stored choice; ignores invalid parts. */
export function readTableChoice(text: string | null): TableChoice {
  try {
    const { hidden, is_dense } = (JSON.parse(text ?? "{}") ?? {}) as { hidden?: unknown; is_dense?: unknown };
    const names = Array.isArray(hidden) ? hidden.filter((name) => typeof name === "string").slice(0, HIDDEN_MAX) : [];
    return { hidden: names, is_dense: is_dense === true };
  } catch {
    return { hidden: [], is_dense: false };
  }
}
