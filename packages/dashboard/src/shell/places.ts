import {
  Activity,
  Bot,
  Boxes,
  Building2,
  ChartLine,
  ClipboardList,
  FileCog,
  KeyRound,
  Logs,
  Map as MapIcon,
  MapPin,
  Package,
  Rocket,
  ScrollText,
  Settings,
  Siren,
  SquareTerminal,
  Users,
} from "lucide-react";
import type { Role } from "../api/session.ts";

export interface Place {
  label: string;
  to: string;
  /** The start of further paths whose pages belong to this one. */
  also?: string;
  icon: typeof Bot;
  /** The key that opens the page when it is pressed after `g`. */
  key: string;
  role?: Role;
}

/** The top-level pages. The navigation, the palette and the shortcuts are built from this list. */
export const PLACES: readonly { title: string; places: readonly Place[] }[] = [
  {
    title: "Fleet",
    places: [
      { label: "Overview", to: "/", icon: Activity, key: "o" },
      { label: "Incidents", to: "/incidents", also: "/alert-rules", icon: Siren, key: "i" },
      { label: "Logs", to: "/logs", icon: Logs, key: "q" },
      { label: "Report", to: "/report", icon: ClipboardList, key: "h" },
      { label: "Metrics", to: "/explore", icon: ChartLine, key: "m" },
      { label: "Robots", to: "/robots", icon: Bot, key: "r" },
      { label: "Fleets", to: "/fleets", icon: Boxes, key: "f" },
      { label: "Sites", to: "/sites", icon: MapPin, key: "s" },
      { label: "Map", to: "/map", icon: MapIcon, key: "n" },
    ],
  },
  {
    title: "Operations",
    places: [
      { label: "Deployments", to: "/deployments", also: "/config-deployments/", icon: Rocket, key: "d" },
      { label: "Releases", to: "/releases", icon: Package, key: "p" },
      { label: "Configs", to: "/configs", icon: FileCog, key: "c" },
      { label: "Enrollment", to: "/enrollment", icon: KeyRound, key: "e" },
    ],
  },
  {
    title: "Organization",
    places: [
      { label: "Users and tokens", to: "/users", icon: Users, key: "u", role: "admin" },
      { label: "Shell sessions", to: "/shells", icon: SquareTerminal, key: "l" },
      { label: "Audit log", to: "/audit", icon: ScrollText, key: "a", role: "admin" },
      { label: "Settings", to: "/settings", icon: Settings, key: "t" },
    ],
  },
];

/** The page for administrators of the service. Only the command palette lists it. */
export const ADMIN_PLACE: Place = { label: "Service admin", to: "/admin", icon: Building2, key: "" };
