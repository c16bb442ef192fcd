import { WRAPPER_VARIABLE } from "../processes.ts";

/** Size in bytes at which the wrapper begins the next file of a stream on the disk. A file may be larger, but is smaller than twice this size. */
export const OUTPUT_FILE_BYTES = 1024 * 1024;
/** Maximum files of one stream. The wrapper deletes older ones, whether the agent has read them or not. */
export const OUTPUT_FILES_MAX = 4;

/**
 * Shell script that runs one program independently of the agent. Its arguments are the directory of this run, the size of an output file in
 * bytes (a multiple of 4096), the path of `setsid`, a user id, and the program with its arguments. The pipes for the output get this user as
 * their owner, so that the program can open `/dev/stdout`. With an empty id, the pipes keep their owner. The script writes:
 *
 * - to stdout, for the agent that started it: `pid N` before the program starts, `exit STATUS` after it has ended;
 * - to DIRECTORY/out.N and DIRECTORY/err.N: the program's output, in numbered files of about that size. Only the newest four of each stream
 *   are kept, so the disk cannot fill while no agent reads them. The program writes to a pipe that is always read: on a full disk its output is lost, but
 *   its writes neither fail nor block;
 * - to DIRECTORY/exit: the exit status. `137 memory` means that the program was killed after its app had reached the memory limit.
 *
 * The program has its own session, so a signal to its process group reaches neither the wrapper nor the agent. It runs in the foreground,
 * because a shell makes background commands ignore SIGINT; and in a subshell, because a shell would redirect its own stderr for the time of a
 * plain command and write `Killed` there. `echo` fails with SIGPIPE if the agent was killed before it read the pid: then
 * the program is not started.
 */
export const WRAPPER_SCRIPT = `
run=$1 size_max=$2 setsid=$3 user=$4
shift 4
exec 5>&1 >/dev/null 2>&1
out_of_memory() {
  while IFS=: read -r number controllers place; do
    case $number$place in 0*/roamfleet-app-*.scope) ;; *) continue ;; esac
    while read -r event count; do
      [ "$event" = oom_kill ] && [ "$count" -gt 0 ] && return 0
    done <"/sys/fs/cgroup$place/memory.events"
  done </proc/self/cgroup
  return 1
}
copy() {
  exec 3>&- 4>&- 5>&-
  trap '' HUP INT TERM
  unset LD_PRELOAD
  PATH=$PATH:/usr/bin:/bin LC_ALL=C
  export PATH LC_ALL
  n=1 lost= note='\\n[output was lost: the disk was full]\\n'
  while :; do
    [ -n "$lost" ] && printf "$note" >>"$1.$n" && lost=
    code=1 count=$((size_max / 4096))
    [ -n "$lost" ] || { said=$(dd bs=4096 count=$count 2>&1 >>"$1.$n"); code=$?; }
    if [ $code -gt 0 ] && [ $code -lt 128 ]; then
      lost=1 count=1
      said=$(dd bs=65536 count=1 of=/dev/null 2>&1) || sleep 1
    fi
    reads=\${said%% records in*}
    reads=\${reads##*
}
    case $reads in
    '' | *[!0-9+]*) ;;
    *)
      if [ $(($reads)) -lt $count ]; then
        [ -n "$lost" ] && printf "$note" >>"$1.$n"
        return
      fi
      ;;
    esac
    size=$(wc -c <"$1.$n") || size=0
    if [ "$size" -ge "$size_max" ]; then
      n=$((n + 1))
      rm -f "$1.$((n - ${OUTPUT_FILES_MAX}))"
    fi
  done
}
trap : HUP INT TERM
{
  trap : HUP INT TERM
  {
    trap : HUP INT TERM
    (
      exec "$setsid" /bin/sh -c 'unset ${WRAPPER_VARIABLE}; echo "pid $$" >&5; exec 5>&-; [ -z "$1" ] || chown "$1" /proc/self/fd/1 /proc/self/fd/2; shift; exec "$@"' sh "$user" "$@"
    ) >&3 2>&4 3>&- 4>&-
    code=$?
    [ $code -eq 137 ] && out_of_memory && code='137 memory'
    echo $code >"$run/exit.tmp" && mv "$run/exit.tmp" "$run/exit"
    echo "exit $code" >&5
  } 4>&1 | copy "$run/err"
} 3>&1 | copy "$run/out"
`;
