/** How a program ended; after a signal the code is 128 and the signal's number, as shells say it. */
export interface ShellExit {
  code: number;
  /** Its name, such as SIGTERM. */
  signal?: string;
}

export interface Output {
  bytes: Uint8Array;
  /** What the program said on its standard error, where that is apart: not on a terminal. */
  error: boolean;
}

/** A program that somebody far away types to. */
export interface Terminal {
  /**
   * What it prints next; undefined when it has ended and all it printed was read. Nothing is taken from the program between two
   * reads, so one that prints faster than is read waits. One read at a time.
   */
  read(): Promise<Output | undefined>;
  /** Resolves when the program, or the kernel for it, took the bytes, or when it has ended. One write at a time. */
  write(bytes: Uint8Array): Promise<void>;
  /** No more input comes. On a terminal it is for the program to be told by Ctrl-D. */
  endInput(): void;
  resize(cols: number, rows: number): void;
  /** Known once the program has ended, which may be before all it printed was read. */
  readonly exited: Promise<ShellExit>;
  /** Ends whatever still runs in it; resolves when nothing does. May be called again. */
  close(): Promise<void>;
}

/** What is started, by whomever and wherever. */
export interface Program {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
}

export interface Size {
  cols: number;
  rows: number;
}
