/** The page where people sign in; they come back to where they were. */
export function goToLogin(): void {
  const next = encodeURIComponent(location.pathname + location.search);
  location.assign(`/accounts/login/?next=${next}`);
}
