import type { ReportedRobotsKind } from "@roamfleet/protocol";

interface Group {
  kind: ReportedRobotsKind;
  site_name: string;
  robot_name: string;
  robot_count: number;
  offline_count: number;
  summary: string;
}

/** Returns a sentence such as "1,000 robots at Rotterdam went offline, 12 still are". A group of one robot names it. */
export function groupSentence({ kind, site_name, robot_name, robot_count, offline_count, summary }: Group): string {
  const is_one = robot_count === 1;
  const robots = `${is_one ? robot_name : `${robot_count.toLocaleString("en")} robots`} at ${site_name}`;
  const are = is_one ? "is" : "are";
  const why = summary === "" ? "" : `: ${summary}`;
  switch (kind) {
    case "went_offline":
      return `${robots} went offline, ${backOf(robot_count, offline_count)}`;
    case "install_failed":
    case "config_failed":
      return `${robots}${why}`;
    case "quarantined":
      return `${robots} ${is_one ? "was" : "were"} quarantined`;
    case "offline":
      return `${robots} ${are} offline`;
    case "failing":
      return `${robots} ${are} unhealthy${why}`;
    case "held":
      return `${robots} ${are} quarantined`;
  }
}

function backOf(robot_count: number, offline_count: number): string {
  if (offline_count === 0) return robot_count === 1 ? "and is back online" : "all are back online";
  if (robot_count === 1) return "and still is";
  return offline_count === robot_count ? "all still are" : `${offline_count.toLocaleString("en")} still are`;
}
