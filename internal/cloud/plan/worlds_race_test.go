//go:build race

package plan_test

// fullWorlds is small under the race detector: the planner has no goroutines, and everything is
// ten times as slow.
const fullWorlds = 12
