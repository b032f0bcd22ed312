package house

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "going to the root of the repository:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
