import { UndecodedMessage } from "../adapter.ts";

/** A topic as announced by the server. */
export interface FoxgloveChannel {
  id: number;
  topic: string;
  /** Encoding of the messages: `cdr`, `ros1`, `json`, … */
  encoding: string;
  /** The type of the messages. */
  schema_name: string;
  schema: string;
  /** Absent in old servers: it follows from the encoding. */
  schema_encoding: string | undefined;
}

export type Decode = (bytes: Uint8Array) => unknown;

/** Parses a channel of an `advertise`; undefined if it is invalid. */
export function readChannel(value: unknown): FoxgloveChannel | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { id, topic, encoding, schemaName, schema, schemaEncoding } = value as Record<string, unknown>;
  if (typeof id !== "number" || typeof topic !== "string" || typeof encoding !== "string") return undefined;
  return {
    id,
    topic,
    encoding,
    schema_name: typeof schemaName === "string" ? schemaName : "",
    schema: typeof schema === "string" ? schema : "",
    schema_encoding: typeof schemaEncoding === "string" && schemaEncoding !== "" ? schemaEncoding : undefined,
  };
}

/** Returns the decoder of a channel. Messages in an encoding that is not of ROS become an UndecodedMessage. */
export async function decoderOf(channel: FoxgloveChannel): Promise<Decode> {
  const { encoding, schema, schema_encoding } = channel;
  const wanted = `${encoding}+${schema_encoding ?? { cdr: "ros2msg", ros1: "ros1msg", protobuf: "protobuf" }[encoding] ?? ""}`;
  switch (wanted) {
    case "cdr+ros2msg": {
      const [{ parse }, { MessageReader }] = await Promise.all([import("@foxglove/rosmsg"), import("@foxglove/rosmsg2-serialization")]);
      const reader = new MessageReader(parse(schema, { ros2: true }));
      return (bytes) => reader.readMessage(bytes);
    }
    case "cdr+ros2idl": {
      const [{ parseRos2idl }, { MessageReader }] = await Promise.all([
        import("@foxglove/ros2idl-parser"),
        import("@foxglove/rosmsg2-serialization"),
      ]);
      const reader = new MessageReader(parseRos2idl(schema));
      return (bytes) => reader.readMessage(bytes);
    }
    case "protobuf+protobuf":
      return (await import("./protobuf.ts")).protobufDecoder(channel);
    case "ros1+ros1msg": {
      const [{ parse }, { MessageReader }] = await Promise.all([import("@foxglove/rosmsg"), import("@foxglove/rosmsg-serialization")]);
      const reader = new MessageReader(parse(schema));
      return (bytes) => reader.readMessage(bytes);
    }
  }
  if (encoding === "json") return (bytes) => JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
  const what = schema_encoding === undefined ? encoding : `${encoding} with a schema in ${schema_encoding}`;
  return (bytes) => new UndecodedMessage(bytes, `messages in ${what} are not read here`);
}
