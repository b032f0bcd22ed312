// Package tier tells tests how much of them is run: make check runs the short tests, make test all
// but the long tier, and make test-long everything. docs/testing.md says what is proven where.
//
// It has no state; everything may be called at the same time.
package tier

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// variable is the environment variable that make test-long sets.
const variable = "NEPHELE_LONG"

// Left begins the reason of every test that only make test-long runs. By it, a count of what was
// not proven distinguishes these tests from tests that the machine cannot run.
const Left = "left to make test-long: "

// Long reports whether everything is to be proven.
func Long() bool { return os.Getenv(variable) != "" }

// OnlyLong leaves a test to make test-long. Every promise keeps a test at each commit, so the
// caller says what proves this one there.
func OnlyLong(t testing.TB, instead string) {
	t.Helper()
	if !Long() {
		t.Skip(Left + instead)
	}
}

// Pick returns how many of something a test plays: short with -short, long in make test-long, and
// else ordinary.
func Pick(short, ordinary, long int) int {
	switch {
	case Long():
		return long
	case testing.Short():
		return short
	}
	return ordinary
}

// AtATime lets so many tests of a package run at the same time, though the machine may have fewer
// processors: for a package whose tests wait most of their time. TestMain calls it. What a person
// says with -parallel counts more.
func AtATime(tests int) error {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) {
		chosen = chosen || f.Name == "test.parallel" && f.Value.String() != strconv.Itoa(runtime.GOMAXPROCS(0))
	})
	if chosen {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(tests))
}
