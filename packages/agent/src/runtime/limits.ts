/** Limits of installing and running software on the robot. Only tests change them, to shorten waits. */
export interface Timing {
  /**
   * First and last wait of the backoff between attempts to download a release or a config. Each wait is a random half to all of the current
   * value.
   */
  retry_first_ms: number;
  retry_last_ms: number;
  /**
   * Number of consecutive responses without a single byte after which a download fails. With the backoff above that takes about 20 minutes.
   * Attempts without a network or with Retry-After do not count.
   */
  download_tries: number;
  /** Maximum time without data in a response. After that the response is aborted and retried. */
  download_stall_ms: number;
  /** First and last wait of the backoff between restarts of a workload that exited. */
  restart_first_ms: number;
  restart_last_ms: number;
  /** Uptime of a workload after which its backoff starts again from the first value. */
  restart_reset_ms: number;
  probe_interval_ms: number;
  probe_timeout_ms: number;
  /** Interval of health probes after a release has been verified. */
  probe_idle_interval_ms: number;
  /** Time that the previous release must stay up after a rollback. */
  rollback_alive_ms: number;
  /** Time limit for downloading and unpacking, including all attempts. A robot with a slow network may need a night. */
  stage_timeout_ms: number;
  /** Time limit for any other step, such as stopping, moving, starting or rolling back. */
  step_timeout_ms: number;
  drift_interval_ms: number;
  /** Maximum wait for an unreachable container engine before a step fails. */
  engine_wait_ms: number;
  /** Interval at which the agent checks whether a container engine answers. */
  engine_check_ms: number;
}

export const TIMING: Timing = {
  retry_first_ms: 1_000,
  retry_last_ms: 60_000,
  download_tries: 25,
  download_stall_ms: 30_000,
  restart_first_ms: 1_000,
  restart_last_ms: 60_000,
  restart_reset_ms: 60_000,
  probe_interval_ms: 1_000,
  probe_timeout_ms: 5_000,
  probe_idle_interval_ms: 10_000,
  rollback_alive_ms: 2_000,
  stage_timeout_ms: 24 * 3_600_000,
  step_timeout_ms: 30 * 60_000,
  drift_interval_ms: 30_000,
  engine_wait_ms: 60_000,
  engine_check_ms: 30_000,
};

/** Disk space in bytes that downloads and unpacking must leave free for the robot's own software. */
export const DISK_FREE_FLOOR_BYTES = 64 * 1024 * 1024;

/** Maximum ratio of an archive's unpacked size to its packed size. Tiny archives get an additional allowance. */
export const UNPACK_RATIO_MAX = 200;
export const UNPACK_ALLOWANCE_BYTES = 64 * 1024 * 1024;
export const UNPACK_BYTES_MAX = 32 * 1024 * 1024 * 1024;
export const UNPACK_ENTRIES_MAX = 200_000;
export const ENTRY_PATH_BYTES_MAX = 1_024;
/** Maximum bytes of a file name on Linux file systems. */
export const ENTRY_NAME_BYTES_MAX = 255;
/** Number of unpacked bytes after which the free disk space is checked again. */
export const UNPACK_SPACE_CHECK_BYTES = 16 * 1024 * 1024;
export const FSYNC_PARALLEL_MAX = 8;

export const MANIFEST_BYTES_MAX = 64 * 1024;
export const MANIFEST_ARGUMENTS_MAX = 256;
export const MANIFEST_ENV_MAX = 256;
export const STOP_TIMEOUT_SECONDS_MAX = 600;
export const STOP_TIMEOUT_SECONDS_DEFAULT = 10;
export const VERIFY_SECONDS_MAX = 86_400;
/** Number of consecutive probes that must succeed for a release to be healthy. */
export const PROBE_STREAK = 3;
/** Number of exits during verification that count as a crash loop. */
export const CRASH_LOOP_EXITS = 3;

/** Number of characters at the end of a command's output that a failure message contains, for probes and reload commands. */
export const OUTPUT_TAIL_CHARACTERS = 500;
/** Maximum characters of a report's message in the protocol. */
export const REPORT_MESSAGE_CHARACTERS_MAX = 4_000;
/** Maximum wait for the end of a killed process group. A process cannot refuse SIGKILL, but may hang in a disk operation. */
export const KILL_WAIT_MS = 5_000;
export const RELOAD_TIMEOUT_MS = 10_000;

export const CONFIG_BYTES_MAX = 16 * 1024 * 1024;

/** Timeout of one call to the container engine. Calls that transfer an image have other limits. */
export const ENGINE_CALL_MS = 60_000;
/** Maximum time without progress of an image load or pull. */
export const ENGINE_STALL_MS = 5 * 60_000;
/** Maximum duration of an image load or pull that makes progress. */
export const ENGINE_MOVE_MS = 24 * 3_600_000;
/** Time after which an engine that does not answer counts as gone. The robot then no longer reports that it supports container releases. */
export const ENGINE_GONE_MS = 10 * 60_000;
/** Maximum bytes of one progress line of an engine, and of each JSON document in an image archive. */
export const ENGINE_LINE_BYTES_MAX = 1024 * 1024;
export const IMAGE_JSON_BYTES_MAX = 8 * 1024 * 1024;
export const IMAGE_LAYERS_MAX = 512;
/** Maximum bytes of a container's log in the engine. The agent's spool contains the older lines. */
export const CONTAINER_LOG_BYTES_MAX = 10 * 1024 * 1024;
