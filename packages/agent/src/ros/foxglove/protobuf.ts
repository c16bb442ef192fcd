import protobuf from "protobufjs";
import descriptor from "protobufjs/ext/descriptor/index.js";

interface FromDescriptor {
  fromDescriptor(set: protobuf.Message): protobuf.Root;
}

/**
 * Returns a decoder for protobuf messages of a channel, whose schema is a FileDescriptorSet in base64. As in protobuf's JSON, 64-bit integers are
 * strings, enums are names, and unset fields have their defaults. Throws if the schema is invalid or lacks the type.
 */
export function protobufDecoder({ schema, schema_name }: { schema: string; schema_name: string }): (bytes: Uint8Array) => unknown {
  const set = descriptor.FileDescriptorSet.decode(Buffer.from(schema, "base64"));
  const root = (protobuf.Root as unknown as FromDescriptor).fromDescriptor(set);
  const type = root.lookupType(schema_name);
  return (bytes) => type.toObject(type.decode(bytes), { longs: String, enums: String, defaults: true });
}
