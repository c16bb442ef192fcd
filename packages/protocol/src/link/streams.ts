import { FrameError } from "./frame.ts";

/**
 * Parameters with which a server opens a channel: one type for each kind of stream. The receiver validates them, because they are untrusted
 * input. Messages of the channel are tagged, see StreamMessage.
 */
export interface ShellParams {
  cols: number;
  rows: number;
  /** Run inside this app, for example its container, instead of on the robot. */
  app?: string;
  /** Command and arguments to run instead of the login shell, without a shell in between. */
  command?: string[];
  /** False: the command runs without a terminal. Bytes are unchanged, standard error is separate, and input can end (`eof`). */
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
      /** Sends only this part of each message, such as `a.b[0]`. */
      field?: string;
      /** Sends long arrays, strings and bytes in full instead of a summary. */
      full?: boolean;
    };

export interface ForwardParams {
  /** Absent: 127.0.0.1. */
  host?: string;
  port: number;
}

/** The tag byte of a message in a stream's channel. */
const DATA = 0;
const CONTROL = 1;

/** A message of a stream: its data, or a control message. */
export type StreamMessage = { data: Uint8Array; control?: undefined } | { data?: undefined; control: Record<string, unknown> };

/** Encodes data of the stream; copies it once to prepend the tag. */
export function dataMessage(bytes: Uint8Array): Uint8Array {
  const message = new Uint8Array(bytes.length + 1);
  message[0] = DATA;
  message.set(bytes, 1);
  return message;
}

/** Encodes a control message, such as `{ type: "resize", cols: 80, rows: 24 }`. */
export function controlMessage(value: Record<string, unknown>): Uint8Array {
  const json = Buffer.from(JSON.stringify(value));
  const message = new Uint8Array(json.length + 1);
  message[0] = CONTROL;
  message.set(json, 1);
  return message;
}

/** Decodes a message of either type; data shares the message's memory. Throws FrameError for anything else. */
export function readMessage(message: Uint8Array): StreamMessage {
  if (message[0] === DATA) return { data: message.subarray(1) };
  if (message[0] !== CONTROL) throw new FrameError("a message of a stream is neither data nor control");
  try {
    const value: unknown = JSON.parse(Buffer.from(message.buffer, message.byteOffset + 1, message.byteLength - 1).toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { control: value as Record<string, unknown> };
  } catch {
    // Reported below.
  }
  throw new FrameError("control of a stream is not a JSON object");
}

/**
 * The protocol of a `files` stream, one request at a time. The client sends FileRequest; after `ready` of a write it sends the bytes from
 * that offset as data, then `end`. The robot responds with FileAnswer; after `reading` it sends the bytes as data, then `done`. After
 * `failed` the next request may follow. Relative paths start in the home directory of the user that accesses the files.
 */
export type FileRequest =
  | { type: "stat"; path: string }
  /** Lists a directory. */
  | { type: "list"; path: string }
  /** Reads from `offset`; `version` identifies the content already received, and a different one fails with `changed`. */
  | { type: "read"; path: string; offset: number; version?: string }
  /** Resumes an earlier write of the same content to the same path. */
  | { type: "write"; path: string; size: number; sha256: string; mode: number }
  | { type: "end" }
  /** Creates one directory; it may already exist. */
  | { type: "mkdir"; path: string; mode: number };

export type FileKind = "file" | "directory" | "other";

export interface FileEntry {
  name: string;
  /** `link`: a symbolic link to a directory, or a broken one. */
  kind: FileKind | "link";
  size: number;
  mode: number;
  /** Changes whenever the content changes. */
  version: string;
}

export type FileAnswer =
  /** `path` is absolute and free of symbolic links. */
  | ({ type: "stat"; path: string } & Omit<FileEntry, "name" | "kind"> & { kind: FileKind })
  | { type: "entries"; entries: FileEntry[] }
  /** Follows the last entries; `unnamed` names are not valid UTF-8 and were omitted. */
  | { type: "listed"; unnamed: number }
  | { type: "reading"; path: string; size: number; mode: number; version: string; offset: number }
  | { type: "ready"; path: string; offset: number }
  /** Progress of a write: bytes stored so far, sent periodically. */
  | { type: "took"; bytes: number }
  /**
   * End of a read or write: total bytes of the file, and bytes transferred in this request. `unchanged`: the same content already existed.
   */
  | { type: "done"; path: string; bytes: number; moved: number; sha256: string; unchanged?: boolean }
  | { type: "made"; path: string }
  | { type: "failed"; code: FileFailure; message: string };

export type FileFailure =
  | "not_found"
  | "forbidden"
  | "not_a_file"
  | "not_a_directory"
  | "disk_full"
  /** The file has changed since the transfer began. */
  | "changed"
  | "checksum"
  | "bad_request"
  | "failed";
