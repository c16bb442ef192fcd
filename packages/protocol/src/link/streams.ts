import { FrameError } from "./frame.ts";

/**
 * Parameters with which a server opens a channel; there is one type for each kind of stream. The receiver validates them, because they are
 * untrusted input. Messages of the channel start with a tag, see StreamMessage.
 */
export interface ShellParams {
  cols: number;
  rows: number;
  /** App in which the command runs, for example in its container. Without it, the command runs on the robot. */
  app?: string;
  /** Command and arguments that run instead of the login shell. No shell interprets them. */
  command?: string[];
  /** Whether the command has a terminal. Without one, bytes are unchanged, standard error is separate, and input can end (`eof`). */
  terminal?: boolean;
  /** Terminal type of the viewer, as in TERM. */
  term?: string;
}

export type CameraParams =
  | { list: true }
  | {
      list?: undefined;
      /** Name of the camera. Default: the first camera. */
      camera?: string;
      /** Maximum frames per second. */
      fps?: number;
      /** Maximum width and height of the frames in pixels. The frames keep the camera's aspect ratio. */
      width?: number;
      height?: number;
      /** Image quality, from 1 (worst) to 100. */
      quality?: number;
    };

export type TopicsParams =
  | {
      op: "list";
      /** Whether the robot keeps the stream open and sends the list of topics again when it changes. */
      follow?: boolean;
    }
  | {
      op: "echo";
      topic: string;
      /** Type of the topic, if several topics have the same name. Sent only to robots with the feature `ros_adapters`. */
      type?: string;
      /** Maximum messages per second. */
      rate?: number;
      /** Path of the only part of each message to send, such as `a.b[0]`. */
      field?: string;
      /** Whether to send long arrays, strings and bytes in full instead of a summary. */
      full?: boolean;
    };

export interface ForwardParams {
  /** Host that the robot connects to. Default: 127.0.0.1. */
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
    // Throw the error below for invalid JSON too.
  }
  throw new FrameError("control of a stream is not a JSON object");
}

/**
 * Requests of a `files` stream, one at a time. After `ready` of a write, the client sends the bytes from that offset as data, then `end`.
 * The robot responds with FileAnswer. After `reading`, it sends the bytes as data, then `done`. After `failed`, the next request may
 * follow. Relative paths start in the home directory of the user that accesses the files.
 */
export type FileRequest =
  | { type: "stat"; path: string }
  /** Lists a directory. */
  | { type: "list"; path: string }
  /**
   * Reads a file from `offset`. `version` identifies the content that the client has read in part. If the content has changed since then,
   * the read fails with `changed`.
   */
  | { type: "read"; path: string; offset: number; version?: string }
  /** Writes a file. Resumes an earlier write of the same content to the same path. */
  | { type: "write"; path: string; size: number; sha256: string; mode: number }
  | { type: "end" }
  /** Creates one directory. Succeeds if it already exists. */
  | { type: "mkdir"; path: string; mode: number };

export type FileKind = "file" | "directory" | "other";

export interface FileEntry {
  name: string;
  /** Kind of the entry. `link` is a symbolic link to a directory, or a broken one. */
  kind: FileKind | "link";
  size: number;
  mode: number;
  /** Identifies the content of the file: it changes whenever the content changes. */
  version: string;
}

export type FileAnswer =
  /** Response to `stat`. `path` is absolute and contains no symbolic links. */
  | ({ type: "stat"; path: string } & Omit<FileEntry, "name" | "kind"> & { kind: FileKind })
  | { type: "entries"; entries: FileEntry[] }
  /** Ends a list of entries. `unnamed` counts the entries that were omitted, because their names are not valid UTF-8. */
  | { type: "listed"; unnamed: number }
  | { type: "reading"; path: string; size: number; mode: number; version: string; offset: number }
  | { type: "ready"; path: string; offset: number }
  /** Progress of a write: bytes stored so far, sent periodically. */
  | { type: "took"; bytes: number }
  /**
   * Ends a read or a write. `bytes` is the size of the whole file, and `moved` counts the bytes transferred in this request. `unchanged`
   * means that the same content already existed.
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
