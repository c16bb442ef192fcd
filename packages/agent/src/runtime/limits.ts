/** Limits of installing and running software on the robot. Only tests change them, to shorten waits. */
export interface Timing {
  /**
   * Backoff between attempts of a download or a config: grows from the first to the last value. Each wait is a random half to all of it.
   */
  retry_first_ms: number;
  retry_last_ms: number;
  /**
   * A download fails after this many consecutive responses without a single byte: about 20 minutes with the backoff above. Attempts without
   * a network, or with Retry-After, do not count.
   */
  download_tries: number;
  /** A response without data for this long is aborted and retried. */
  download_stall_ms: number;
  /** Backoff between restarts of a workload that exited. */
  restart_first_ms: number;
  restart_last_ms: number;
  /** The backoff starts again at its first value after a workload was up for this long. */
  restart_reset_ms: number;
  probe_interval_ms: number;
  probe_timeout_ms: number;
  /** Probe interval once a release is verified. */
  probe_idle_interval_ms: number;
  /** How long the previous version must stay up after a rollback. */
  rollback_alive_ms: number;
  /** Downloading and unpacking, including all attempts: a robot with a slow network may need a night. */
  stage_timeout_ms: number;
  /** Any other step: stopping, moving, starting, rolling back. */
  step_timeout_ms: number;
  drift_interval_ms: number;
  /** How long an unreachable container engine may take to return before a step fails. */
  engine_wait_ms: number;
  /** Interval of checks whether a container engine answers. */
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

/** Disk space that downloads and archives must leave free: the robot's own software needs it. */
export const DISK_FREE_FLOOR_BYTES = 64 * 1024 * 1024;

/** Maximum ratio of an archive's unpacked to packed size, plus an allowance for tiny archives. */
export const UNPACK_RATIO_MAX = 200;
export const UNPACK_ALLOWANCE_BYTES = 64 * 1024 * 1024;
export const UNPACK_BYTES_MAX = 32 * 1024 * 1024 * 1024;
export const UNPACK_ENTRIES_MAX = 200_000;
export const ENTRY_PATH_BYTES_MAX = 1_024;
/** Limit of Linux file systems for one name. */
export const ENTRY_NAME_BYTES_MAX = 255;
/** Free disk space is checked again after this many unpacked bytes. */
export const UNPACK_SPACE_CHECK_BYTES = 16 * 1024 * 1024;
export const FSYNC_PARALLEL_MAX = 8;

export const MANIFEST_BYTES_MAX = 64 * 1024;
export const MANIFEST_ARGUMENTS_MAX = 256;
export const MANIFEST_ENV_MAX = 256;
export const STOP_TIMEOUT_SECONDS_MAX = 600;
export const VERIFY_SECONDS_MAX = 86_400;
/** Consecutive probes that must succeed. */
export const PROBE_STREAK = 3;
/** Number of exits during verification that count as a crash loop. */
export const CRASH_LOOP_EXITS = 3;

/** Characters of a probe's or reload command's output that are kept for the message of a failure. */
export const OUTPUT_TAIL_CHARACTERS = 500;
/** The protocol's limit for the message of a report. */
export const REPORT_MESSAGE_CHARACTERS_MAX = 4_000;
/** How long to wait for a killed process group: SIGKILL is not refused, but a disk operation may hang. */
export const KILL_WAIT_MS = 5_000;
export const RELOAD_TIMEOUT_MS = 10_000;

export const CONFIG_BYTES_MAX = 16 * 1024 * 1024;

/** Timeout of one call to the container engine, except those that transfer an image. */
export const ENGINE_CALL_MS = 60_000;
/** A load or a pull without progress for this long fails. */
export const ENGINE_STALL_MS = 5 * 60_000;
/** Maximum duration of a load or a pull, even with progress. */
export const ENGINE_MOVE_MS = 24 * 3_600_000;
/** The robot stops announcing the kinds of an engine that did not answer for this long. */
export const ENGINE_GONE_MS = 10 * 60_000;
/** Maximum length of one line of an engine's progress, and of the JSON parts of an image archive. */
export const ENGINE_LINE_BYTES_MAX = 1024 * 1024;
export const IMAGE_JSON_BYTES_MAX = 8 * 1024 * 1024;
export const IMAGE_LAYERS_MAX = 512;
/** Maximum size of the engine's log of a container; older lines are in the agent's own spool. */
export const CONTAINER_LOG_BYTES_MAX = 10 * 1024 * 1024;
