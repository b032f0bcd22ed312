// Package browser holds the tests of the console in a real browser, and nothing else: a whole
// Nephele on a simulated account, consoles of several people on it, and Chromium, driven by
// web/test/browser.mjs. Where Node, npm or Chromium is missing, the tests say so and are skipped.
package browser
