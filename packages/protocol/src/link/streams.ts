/**
 * What a server asks of a robot when it opens a channel, by the kind of stream. Their messages are tagged, see tagged.ts. Whoever
 * is asked checks the parameters: they come from the other end.
 */
export interface ShellParams {
  cols: number;
  rows: number;
  /** Inside of this app, its container for instance, instead of the robot itself. */
  app?: string;
  /** Instead of the login shell: words, no shell in between. */
  command?: string[];
  /** False: no terminal in between. Bytes are as they are, what is said on standard error comes apart, and input ends (`eof`). */
  terminal?: boolean;
  /** What kind of terminal the other end has, as in TERM. */
  term?: string;
}

export type CameraParams =
  | { list: true }
  | {
      list?: undefined;
      /** By name; the first, if absent. */
      camera?: string;
      /** Frames a second, at most. */
      fps?: number;
      /** Pixels; the other side follows from the camera's shape. */
      width?: number;
      height?: number;
      /** 1 (worst) to 100 */
      quality?: number;
    };

export type TopicsParams =
  | {
      op: "list";
      /** Goes on, and tells again when it is another one. */
      follow?: boolean;
    }
  | {
      op: "echo";
      topic: string;
      /** Which type, where topics of several types share the name; only to robots that know the feature `ros_adapters`. */
      type?: string;
      /** Messages a second, at most. */
      rate?: number;
      /** Only this part of each message, `a.b[0]`. */
      field?: string;
      /** Long arrays, texts and bytes as they are instead of a summary of them. */
      full?: boolean;
    };

export interface ForwardParams {
  /** 127.0.0.1, if absent. */
  host?: string;
  port: number;
}
