/** Addresses of the app. The server knows the same ones (frontend/urls.py). */
export const SECTIONS = ["appearance", "keys", "account"] as const;
export type Section = (typeof SECTIONS)[number];

export type Route =
  | { readonly name: "chat"; readonly id: string | null }
  | { readonly name: "settings"; readonly section: Section };

/** What is shown at a path; null: it isn't the app's. */
export function routeOf(path: string): Route | null {
  if (path === "/") {
    return { name: "chat", id: null };
  }
  const [, first, second, ...rest] = path.split("/");
  if (rest.length > 0) {
    return null;
  }
  if (first === "c" && second !== undefined && /^[A-Za-z0-9-]{1,40}$/.test(second)) {
    return { name: "chat", id: second };
  }
  if (first === "settings" && (second ?? "appearance") !== "") {
    const section = SECTIONS.find((name) => name === (second ?? "appearance"));
    return section === undefined ? null : { name: "settings", section };
  }
  return null;
}

/** The path of a chat; null: a new one. */
export function chatPath(id: string | null): string {
  return id === null ? "/" : `/c/${id}`;
}
