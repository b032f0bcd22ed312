//go:build !race

package plan_test

// defaultWorlds is how many random worlds TestWorlds looks at if nothing else is asked for.
const defaultWorlds = 100
