/**
 * Parameters with which a server opens a channel, by the kind of stream. Messages are tagged, see tagged.ts. The receiver validates the
 * parameters, because they are untrusted input.
 */
export interface ShellParams {
  cols: number;
  rows: number;
  /** Run inside this app, for example its container, instead of on the robot. */
  app?: string;
  /** Command and arguments to run instead of the login shell, without a shell in between. */
  command?: string[];
  /** False: no terminal. Bytes are unchanged, standard error is separate, and input can end (`eof`). */
  terminal?: boolean;
  /** Terminal type of the other end, as in TERM. */
  term?: string;
}

export type CameraParams =
  | { list: true }
  | {
      list?: undefined;
      /** Camera name; absent: the first one. */
      camera?: string;
      /** Maximum frames per second. */
      fps?: number;
      /** Pixels; the other dimension keeps the aspect ratio. */
      width?: number;
      height?: number;
      /** 1 (worst) to 100 */
      quality?: number;
    };

export type TopicsParams =
  | {
      op: "list";
      /** Keeps the stream open and sends the list again when it changes. */
      follow?: boolean;
    }
  | {
      op: "echo";
      topic: string;
      /** Selects a type if several topics share the name; sent only to robots with the feature `ros_adapters`. */
      type?: string;
      /** Maximum messages per second. */
      rate?: number;
      /** Only this part of each message, `a.b[0]`. */
      field?: string;
      /** Long arrays, strings and bytes in full instead of a summary. */
      full?: boolean;
    };

export interface ForwardParams {
  /** Absent: 127.0.0.1. */
  host?: string;
  port: number;
}
