// Package docs_test runs every command of the README and of the pages in docs as it is written
// there.
//
// A command stands in a block of the kind console, or is indented; the lines after one that begins
// with $ are its output. Each page has a directory, a shell and, where the machine allows it, a
// network of its own, so that the ports that the pages name are free. A command must end with 0, or
// with the exit code that the comment behind it names. Of an output shown, every line must come, in
// that order: words with digits may be others with digits, and ... stands for anything. Commands
// that only look are repeated until a deadline, as a reader would.
//
// A block that cannot be run says why: <!-- not run: the reason --> stands before it. Commands that
// are not run, and those in the text, are held against the help of nephele: the command and its
// flags must exist. Of make only the target is looked for, because this test has built the binary
// already, and the rest of make is CI itself.
package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// root is the repository.
var root string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == shellArgument {
		return becomeShell()
	}
	var err error
	if root, err = filepath.Abs("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// As in the end-to-end tests: only hack/build.sh sets the version that clients of the API
	// server can parse.
	build := exec.Command(filepath.Join(root, "hack/build.sh"), "standalone", "./cmd/nephele", "bin/nephele")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the binary under test:", err)
		return 1
	}
	return m.Run()
}
