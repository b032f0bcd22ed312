// Command nephele is the slim binary: everything but the built-in Kubernetes control plane.
//
// It wires nothing but the commands of package cli, and ends when it is interrupted.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/nephele-io/nephele/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}
