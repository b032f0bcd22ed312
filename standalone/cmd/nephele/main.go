// Command nephele, standalone build: all commands of the slim binary, and those that run a Kubernetes control plane in the process.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/standalone/internal/up"
)

func main() { os.Exit(run()) }

func run() int {
	// The first signal asks for an orderly end; after it the second one has its default effect and kills the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	// Kubernetes libraries put flags of their own into this set, and cobra offers the set with every command.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)

	root := &cobra.Command{Use: "nephele", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(up.NewCommand(crd.FS(), nil))
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "nephele:", err)
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			return coded.ExitCode()
		}
		return 1
	}
	return 0
}
