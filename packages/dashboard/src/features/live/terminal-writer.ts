import type { Terminal } from "@xterm/xterm";

/**
 * Characters that xterm parses without a pause. Sequences of three characters may rewrite the whole screen, so a longer slice could
 * block the page for seconds.
 */
const SLICE_CHARACTERS = 1_024;
/**
 * A run of marks that xterm adds to the character before (the control character DEL does not end the run): the browser takes minutes to
 * draw a cell with a million of them, so the rest of a longer run is dropped.
 */
const MARK = "[\\p{M}\\p{Cf}\\u1160-\\u11ff\\u007f]";
const MARKS_MAX = 16;
const MARKS = new RegExp(`(${MARK}{${MARKS_MAX}})${MARK}+`, "gu");
const LAST_MARKS = new RegExp(`${MARK}{0,${MARKS_MAX}}$`, "u");
/** Finished work is removed from the queue when there is so much of it. */
const FINISHED_MAX = 256;

type Work = { text: string; at: number; done: (() => void) | undefined } | (() => void);

export interface TerminalWriter {
  /** Draws bytes of UTF-8, which may be cut anywhere, or text. Calls `done` when they are drawn. */
  write: (output: Uint8Array | string, done?: () => void) => void;
  /** Calls `work` after everything before it is drawn. */
  after: (work: () => void) => void;
  /** Drops what is not drawn yet. Its `done` is not called. */
  clear: () => void;
}

/**
 * Writes to a terminal in slices, each after the one before is drawn: the page stays responsive, whatever is written, and xterm's own
 * queue, which throws when it is full, stays empty.
 */
export function createTerminalWriter(terminal: Terminal): TerminalWriter {
  const decoder = new TextDecoder();
  let last_marks = "";
  const withFewMarks = (slice: string): string => {
    const text = (last_marks + slice).replace(MARKS, "$1");
    const added = text.slice(last_marks.length);
    last_marks = LAST_MARKS.exec(text)?.[0] ?? "";
    return added;
  };
  let queue: Work[] = [];
  let next = 0;
  let is_running = false;
  const run = (): void => {
    if (next >= FINISHED_MAX) {
      queue = queue.slice(next);
      next = 0;
    }
    const work = queue[next];
    is_running = work !== undefined;
    if (work === undefined) {
      queue = [];
      next = 0;
    } else if (typeof work === "function") {
      next += 1;
      terminal.write("", () => {
        work();
        run();
      });
    } else {
      const end = sliceEnd(work.text, work.at);
      const slice = withFewMarks(work.text.slice(work.at, end));
      work.at = end;
      const is_last = end >= work.text.length;
      if (is_last) next += 1;
      terminal.write(slice, () => {
        if (is_last) work.done?.();
        run();
      });
    }
  };
  const add = (work: Work): void => {
    queue.push(work);
    if (!is_running) run();
  };
  return {
    write: (output, done) => add({ text: typeof output === "string" ? output : decoder.decode(output, { stream: true }), at: 0, done }),
    after: add,
    clear: () => {
      queue = [];
      next = 0;
    },
  };
}

/** No slice ends between the halves of a surrogate pair. */
function sliceEnd(text: string, from: number): number {
  const end = from + SLICE_CHARACTERS;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last <= 0xdbff ? end + 1 : end;
}
