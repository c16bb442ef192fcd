export { recordTimeline, recordTimelineMany, type TimelineRecord } from "./record.ts";
export { timelineRoutes } from "./routes.ts";
