const COOKIE = "llamaweb_csrf";

/** What requests that change something must say. Every sign-in, of any tab, makes a new one. */
export function csrfToken(): string {
  const found = document.cookie.split("; ").find((pair) => pair.startsWith(`${COOKIE}=`));
  return decodeURIComponent(found?.slice(COOKIE.length + 1) ?? "");
}
