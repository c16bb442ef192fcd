export { openDashboard } from "./site.ts";
export { dashboardPages } from "./pages.ts";
