//go:build !race

package plan_test

// fullWorlds is how many random worlds TestWorlds plays in make test-long.
const fullWorlds = 100
