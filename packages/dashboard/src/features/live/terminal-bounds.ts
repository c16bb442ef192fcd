import type { Terminal } from "@xterm/xterm";

/** Cursor tabs in a row of any width. */
const TABS_MAX = 1_000;

/**
 * Sequences whose cost grows with their count: xterm repeats the work, or allocates, as often as the count states, up to 2^31 times.
 * Beyond these bounds a higher count has no other effect. All other counts are clamped by xterm to the size of the screen.
 */
const COUNTED: Record<string, (terminal: Terminal) => number> = {
  // REP
  b: ({ cols, rows }) => cols * rows,
  // IL, DL, SU, SD
  L: ({ rows }) => rows,
  M: ({ rows }) => rows,
  S: ({ rows }) => rows,
  T: ({ rows }) => rows,
  // CHT, CBT
  I: () => TABS_MAX,
  Z: () => TABS_MAX,
};

/** Clamps the counts of control sequences before xterm runs them: `CSI 999999999 b` would freeze the page or exhaust its memory. */
export function boundCounts(terminal: Terminal): void {
  // The handlers of the public API get copies of the parameters; these get what the next handler reads.
  const { _core } = terminal as unknown as Insides;
  for (const [final, most] of Object.entries(COUNTED))
    _core.registerCsiHandler({ final }, ({ params }) => {
      params[0] = Math.min(params[0] ?? 0, most(terminal));
      return false;
    });
}

/** Internals of xterm 6 that run control sequences. */
interface Insides {
  _core: { registerCsiHandler: (id: { final: string }, handle: (params: { params: Int32Array }) => boolean) => unknown };
}
