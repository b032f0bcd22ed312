// Package seed gives random tests their seeds.
//
// A test draws the same worlds in every run, so that a red build is about the change that was made
// and not about luck. To search for worse worlds, set NEPHELE_SEED to "fresh", or to the number
// that such a search has printed.
//
// It has no state; everything may be called at the same time.
package seed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// variable is the environment variable that overrides the seeds of all tests.
const variable = "NEPHELE_SEED"

// Of returns the seed of a test, and prints it. It is made of the name of the test, unless
// NEPHELE_SEED says otherwise.
func Of(t testing.TB) uint64 {
	t.Helper()
	seed, err := choose(t.Name(), os.Getenv(variable), rand.Uint64)
	if err != nil {
		t.Fatalf("%s: a number or \"fresh\" is expected: %v", variable, err)
	}
	t.Logf("seed %d (repeat with %s=%[1]d)", seed, variable)
	return seed
}

func choose(name, wish string, fresh func() uint64) (uint64, error) {
	switch wish {
	case "":
		h := fnv.New64a()
		h.Write([]byte(name)) // never fails, as hash.Hash says
		return h.Sum64(), nil
	case "fresh":
		return fresh(), nil
	}
	return strconv.ParseUint(wish, 10, 64)
}
