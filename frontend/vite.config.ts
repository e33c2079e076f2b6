import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig } from "vitest/config";

// Django serves the page and finds the files in manifest.json; there is no index.html here.
export default defineConfig({
  base: "/static/",
  plugins: [svelte(), svelteTesting()],
  build: {
    manifest: "manifest.json",
    outDir: "dist",
    rolldownOptions: { input: ["src/main.ts", "src/styles/pages.css"] },
  },
  server: {
    // The page comes from Django's address, the modules from here.
    cors: { origin: /^http:\/\/(localhost|127\.0\.0\.1)(:\d+)?$/ },
  },
  test: {
    include: ["src/**/*.test.ts"],
    environment: "node",
    setupFiles: ["src/dev/browser.ts"],
  },
});
