export { openDashboard } from "./open.ts";
export { dashboardPages } from "./pages.ts";
