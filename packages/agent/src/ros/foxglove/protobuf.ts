import protobuf from "protobufjs";
import descriptor from "protobufjs/ext/descriptor/index.js";
import type { Decode, FoxgloveChannel } from "./channel.ts";

interface FromDescriptor {
  fromDescriptor(set: protobuf.Message): protobuf.Root;
}

/**
 * Reads protobuf messages of a channel, whose schema is a FileDescriptorSet in base64. 64-bit integers are texts and enums are names, as in the
 * JSON of protobuf; fields that are not set have their defaults. Throws for a schema that is none or lacks the type.
 */
export function protobufDecoder({ schema, schema_name }: Pick<FoxgloveChannel, "schema" | "schema_name">): Decode {
  const set = descriptor.FileDescriptorSet.decode(Buffer.from(schema, "base64"));
  const root = (protobuf.Root as unknown as FromDescriptor).fromDescriptor(set);
  const type = root.lookupType(schema_name);
  return (bytes) => type.toObject(type.decode(bytes), { longs: String, enums: String, defaults: true });
}
