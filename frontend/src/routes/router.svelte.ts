import { routeOf, type Route } from "./path";

const HOME: Route = { name: "chat", id: null };

/** The address bar and what it stands for. */
export class Router {
  route = $state<Route>(routeOf(location.pathname) ?? HOME);

  /** Follow the browser's back and forward, and plain clicks on links of the app. */
  watch(): () => void {
    const popped = () => (this.route = routeOf(location.pathname) ?? HOME);
    const clicked = (event: MouseEvent) => this.#click(event);
    window.addEventListener("popstate", popped);
    document.addEventListener("click", clicked);
    return () => {
      window.removeEventListener("popstate", popped);
      document.removeEventListener("click", clicked);
    };
  }

  /** Show another path; the page isn't loaded anew. */
  go(path: string, replace = false): void {
    const route = routeOf(path);
    if (route === null) {
      location.assign(path);
      return;
    }
    if (path !== location.pathname) {
      history[replace ? "replaceState" : "pushState"](null, "", path);
    }
    this.route = route;
  }

  #click(event: MouseEvent): void {
    const isPlain =
      event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!isPlain || event.defaultPrevented || link === null || link.target !== "") {
      return;
    }
    if (link.origin === location.origin && routeOf(link.pathname) !== null) {
      event.preventDefault();
      this.go(link.pathname);
    }
  }
}
