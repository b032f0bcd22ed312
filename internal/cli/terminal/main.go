// Package terminal is what the commands of all our programs have in common: exit codes, printing of
// untrusted text, logs, the version, errors about unknown arguments, and how to find a cluster.
//
// It owns only these and the command "version". It keeps nothing, and imports none of the packages
// that compute answers.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	ExitDone = 0
	// ExitNo: the answer is "no", or the state differs from the wanted one.
	ExitNo = 1
	// ExitBadInput: the input is wrong, or the command could not be carried out.
	ExitBadInput = 2
)

// ErrNo is what a command returns when it has printed its answer and the answer is "no". Nothing
// more is printed.
var ErrNo = errors.New("the answer is no")

// ErrRefused is what a command returns when it has printed its answer and said on standard error
// what was wrong.
var ErrRefused = errors.New("some of the input was refused")

// Streams are what a command reads from and prints to.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Run runs a command line and returns the exit code.
func Run(ctx context.Context, root *cobra.Command, args []string, s Streams) int {
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrNo):
		return ExitNo
	case errors.Is(err, ErrRefused):
		return ExitBadInput
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintf(s.Err, "error: %s\n", Printable(line))
	}
	return ExitBadInput
}

// NoSuchCommand refuses arguments of a command that only has commands below it, and says which of
// these may have been meant.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}
