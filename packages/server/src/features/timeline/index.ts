export { recordTimeline, recordTimelineMany, type TimelineRecord } from "./record.ts";
export { dropTimelineEntries } from "./retention.ts";
export { countEntries as countTimeline } from "./store.ts";
export { timelineRoutes } from "./routes.ts";
