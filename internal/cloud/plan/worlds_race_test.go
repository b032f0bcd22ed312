//go:build race

package plan_test

// defaultWorlds is small under the race detector: the planner has no goroutines, and everything is
// ten times as slow.
const defaultWorlds = 12
