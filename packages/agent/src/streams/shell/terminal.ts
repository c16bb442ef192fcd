/** How a program ended; after a signal the code is 128 plus the signal's number, as in shells. */
export interface ShellExit {
  code: number;
  /** Name of the signal, such as SIGTERM. */
  signal?: string;
}

export interface Output {
  bytes: Uint8Array;
  /** True for output on stderr, if that is separate: not on a terminal. */
  error: boolean;
}

/** A program with a remote user. */
export interface Terminal {
  /**
   * Returns the next output; undefined when the program has ended and all of its output was read. Nothing is consumed between two reads, so a program
   * that prints faster blocks. One read at a time.
   */
  read(): Promise<Output | undefined>;
  /** Resolves when the program, or the kernel for it, has accepted the bytes, or when it has ended. One write at a time. */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the input. On a terminal the user types Ctrl-D instead. */
  endInput(): void;
  resize(cols: number, rows: number): void;
  /** Resolves once the program has ended, possibly before all of its output was read. */
  readonly exited: Promise<ShellExit>;
  /** Ends all of its processes; resolves when none is left. May be called again. */
  close(): Promise<void>;
}

/** A program to start, with its arguments, environment and user. */
export interface Program {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
}

export interface Size {
  cols: number;
  rows: number;
}
