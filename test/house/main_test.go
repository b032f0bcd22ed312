package house

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain goes to the root of the repository. The go command looks for files that a test reads in
// the folder of its package, so it would keep a result although files have changed: without its log
// of them it keeps none.
func TestMain(m *testing.M) {
	flag.Parse()
	err := flag.Set("test.testlogfile", "")
	if err == nil {
		err = os.Chdir("../..")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "going to the root of the repository:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
