import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import { FrameError } from "./frame.ts";

/** Messages with fewer bytes are not compressed: compression would save less than its cost. */
const PACKED_BYTES_MIN = 200;

/**
 * Preset dictionary for deflate at both ends, so that even a short message compresses well. It contains text that is common in messages of
 * robots, the most common parts last. The dictionary is part of the feature `packed` and never changes: another dictionary would need a
 * feature with another name.
 */
const DICTIONARY = Buffer.from(
  '"ros_adapters":[{"name":"rosbridge","state":"not_found"},{"name":"dds","state":"connected","distro":"humble","nodes":0,"topics":0},' +
    '{"name":"foxglove","state":"searching"},{"name":"ros1","state":"not_found"},{"name":"ros2","state":"standby"}]' +
    '"/rosout","/parameter_events","/tf_static","/tf","/odom","/cmd_vel","/scan","/imu/data","/diagnostics","/joint_states"' +
    '{"name":"temperature","status":"ok","message":" °C"},{"name":"app:main","status":"ok","message":"running"}' +
    '{"app":"main","kind":"app_bundle","status":"running","restarts":0,"release_tag":"1.0.0"}' +
    '{"type":"health","ros_unchanged":true,"snapshot":{"at":"2026-01-01T00:00:00.000Z","boot_id":"","uptime_seconds":' +
    ',"cpu":{"percent":0,"load_1m":0.0,"cores":4,"temperature_celsius":null},"memory":{"used_bytes":,"total_bytes":},' +
    '"disks":[{"mount":"/","used_bytes":,"total_bytes":}],"network":[{"name":"lo","rx_bytes":,"tx_bytes":,"addresses":["127.0.0.1","::1"]},' +
    '{"name":"eth0","rx_bytes":,"tx_bytes":,"addresses":["192.168.","fe80::"]},{"name":"wlan0","rx_bytes":0,"tx_bytes":0,"addresses":[]}],' +
    '"battery":{"percent":100,"charging":false},"workloads":[],"ros":null,"checks":[{"name":"disk:/","status":"ok","message":"% used"},' +
    '{"name":"memory","status":"ok","message":"% used"},{"name":"clock","status":"ok","message":"0.0 s behind the server"}],' +
    '"metrics":{"agent_rss_bytes":,"outbox_reports":0,"log_spool_bytes":0,"log_records_dropped":0},"status":"ok"}}' +
    '"level":"error","source":"agent","level":"warn","source":"kernel","fields":{"pid":' +
    '{"type":"logs","records":[{"seq":1,"at":"2026-01-01T00:00:00.000Z","level":"info","source":"main","message":"',
);
/**
 * Messages with more bytes are compressed with the fastest level. THOROUGH_LEVEL blocks the event loop for 7 ms if a message of this size
 * consists of short repetitions. Level 9 would save 2% more of usual logs, but block it for 40 ms.
 */
const THOROUGH_BYTES_MAX = 32 * 1024;
const THOROUGH_LEVEL = 7;

/** Compresses a message for the flag PACKED. Returns undefined if it is too short, or would not become shorter. */
export function packMessage(message: Uint8Array): Buffer | undefined {
  if (message.length < PACKED_BYTES_MIN) return undefined;
  const level = message.length > THOROUGH_BYTES_MAX ? constants.Z_BEST_SPEED : THOROUGH_LEVEL;
  const packed = deflateRawSync(message, { level, dictionary: DICTIONARY });
  return packed.length < message.length ? packed : undefined;
}

/** Decompresses a message with the flag PACKED. Throws FrameError if it is damaged, or longer than `bytes_max` when it is decompressed. */
export function unpackMessage(packed: Uint8Array, bytes_max: number): Buffer {
  try {
    return inflateRawSync(packed, { dictionary: DICTIONARY, maxOutputLength: bytes_max });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      throw new FrameError(`message is over ${bytes_max} bytes when it is decompressed`);
    throw new FrameError("a compressed message is damaged");
  }
}
